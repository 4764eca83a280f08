"""Several recordings at once through Silero VAD: in chunks, the LSTM's state carried, a row leaving when it is done."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlxbatch.vad.layout import NETWORKS
from mlxbatch.vad.network import SileroNetwork, State

Key = TypeVar("Key")
Samples = NDArray[np.float32]
Probabilities = NDArray[np.float32]

ROWS = 8
CHUNK = 625  # steps: 20 s of each row


@dataclass(slots=True)
class Row(Generic[Key]):
    """A recording under way: `at` counts its steps that are done."""

    key: Key
    samples: Samples
    gain: float
    at: int = 0
    found: list[Probabilities] = field(default_factory=list)


class Detector(Generic[Key]):
    """One network over up to ROWS recordings.

    A row gets to the bit what it gets alone: what is done row by row depends on the row's own length, and the LSTM's
    products have ROWS rows however many are live.
    """

    def __init__(self, network: SileroNetwork) -> None:
        self._network = network
        self._rows: list[Row[Key] | None] = [None] * ROWS
        self._state = State.zeros(ROWS)

    @property
    def free(self) -> int:
        return self._rows.count(None)

    @property
    def live(self) -> int:
        return ROWS - self.free

    def join(self, key: Key, samples: Samples, gain: float = 1.0) -> None:
        """Seat a recording, samples at the network's rate, in a free row; it is heard `gain` times as loud."""
        index = self._rows.index(None)
        self._rows[index] = Row(key, samples, gain)
        keep = mx.arange(ROWS)[:, None] != index
        self._state = State(self._state.hidden * keep, self._state.cell * keep)

    def advance(self) -> list[tuple[Key, Probabilities]]:
        """Take each row a chunk further, and give those that are done: a probability for each step of 32 ms, [steps].

        Where memory runs out (RuntimeError or MemoryError of MLX) nothing has changed, and it can be called again.
        """
        gates = {index: self._network.features(self._chunk(row)) for index, row in self._live()}
        state, found = self._recur(gates)
        mx.eval(state.hidden, state.cell, found)
        self._state = state
        return self._take({index: np.array(row) for index, row in found.items()})

    def under_way(self) -> list[Key]:
        """The recordings under way."""
        return [row.key for _, row in self._live()]

    def _live(self) -> list[tuple[int, Row[Key]]]:
        return [(index, row) for index, row in enumerate(self._rows) if row is not None]

    def _chunk(self, row: Row[Key]) -> mx.array:
        """Samples of the row's next steps, after those of the step before; zeros where there are none."""
        step, context = self._network.sizes.step, self._network.sizes.context
        begin = row.at * step - context
        end = min(len(row.samples), (row.at + CHUNK) * step)
        steps = -(-(end - row.at * step) // step)
        chunk = np.zeros(context + steps * step, np.float32)
        chunk[max(0, -begin) : end - begin] = row.samples[max(0, begin) : end]
        return mx.array(chunk * np.float32(row.gain))

    def _recur(self, gates: dict[int, mx.array]) -> tuple[State, dict[int, mx.array]]:
        steps = max((len(row) for row in gates.values()), default=0)
        if not steps:  # recordings of no samples
            return self._state, dict.fromkeys(gates, mx.zeros(0))
        empty = mx.zeros((steps, next(iter(gates.values())).shape[1]))
        padded = [mx.pad(gates[i], [(0, steps - len(gates[i])), (0, 0)]) if i in gates else empty for i in range(ROWS)]
        outputs, state = self._network.recur(mx.stack(padded), self._state)
        return state, {i: self._network.probabilities(outputs[i, : len(row)]) for i, row in gates.items()}

    def _take(self, found: dict[int, Probabilities]) -> list[tuple[Key, Probabilities]]:
        done = []
        for index, row in self._live():
            row.found.append(found[index])
            row.at += len(found[index])
            if row.at * self._network.sizes.step >= len(row.samples):
                self._rows[index] = None
                done.append((row.key, np.concatenate(row.found)))
        return done


def load(directory: Path) -> dict[int, SileroNetwork]:
    """The networks of a whole model directory by sample rate, their weights evaluated: any thread may use them."""
    weights = mx.load(str(directory / "model.safetensors"), stream=mx.Device(mx.cpu))
    assert isinstance(weights, dict)
    mx.eval(weights)
    return {rate: SileroNetwork(_own(weights, f"{rate}."), rate) for rate in NETWORKS}


def _own(weights: dict[str, mx.array], prefix: str) -> dict[str, mx.array]:
    return {name.removeprefix(prefix): array for name, array in weights.items() if name.startswith(prefix)}
