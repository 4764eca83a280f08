"""Several recordings at once through Silero VAD: in chunks, the LSTM's state carried, a row leaving when it is done."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from mlxbatch.vad.layout import HIDDEN, NETWORKS
from mlxbatch.vad.network import SileroNetwork, State, Stream

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

    def __init__(self, network: SileroNetwork, stream: Stream) -> None:
        self._network, self._stream = network, stream
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
        for carried in (self._state.hidden, self._state.cell):
            carried[index] = 0

    def advance(self) -> list[tuple[Key, Probabilities]]:
        """Take each row a chunk further, and give those that are done: a probability for each step of 32 ms, [steps].

        Where memory runs out (RuntimeError or MemoryError of MLX) nothing has changed, and it can be called again.
        """
        gates = {index: self._network.gates(self._chunk(row), self._stream) for index, row in self._live()}
        outputs, state = self._recur(gates)
        found = {i: self._network.probabilities(outputs[: len(row), i]) for i, row in gates.items()}
        self._state = state
        return self._take(found)

    def under_way(self) -> list[Key]:
        """The recordings under way."""
        return [row.key for _, row in self._live()]

    def _live(self) -> list[tuple[int, Row[Key]]]:
        return [(index, row) for index, row in enumerate(self._rows) if row is not None]

    def _chunk(self, row: Row[Key]) -> Samples:
        """Samples of the row's next steps, after those of the step before; zeros where there are none."""
        step, context = self._network.sizes.step, self._network.sizes.context
        begin = row.at * step - context
        end = min(len(row.samples), (row.at + CHUNK) * step)
        steps = -(-(end - row.at * step) // step)
        chunk = np.zeros(context + steps * step, np.float32)
        chunk[max(0, -begin) : end - begin] = row.samples[max(0, begin) : end]
        return chunk * np.float32(row.gain)

    def _recur(self, gates: dict[int, Samples]) -> tuple[Samples, State]:
        """Outputs [steps, ROWS, HIDDEN] of the longest row's steps, and the state after them."""
        steps = max((len(row) for row in gates.values()), default=0)
        if not steps:  # recordings of no samples
            return np.zeros((0, ROWS, HIDDEN), np.float32), self._state
        padded = np.zeros((steps, ROWS, 4 * HIDDEN), np.float32)
        for index, row in gates.items():
            padded[: len(row), index] = row
        return self._network.recur(padded, self._state, self._stream)

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
    weights = load_file(directory / "model.safetensors")
    return {rate: SileroNetwork(_own(weights, f"{rate}."), rate) for rate in NETWORKS}


def _own(weights: dict[str, Samples], prefix: str) -> dict[str, Samples]:
    return {name.removeprefix(prefix): array for name, array in weights.items() if name.startswith(prefix)}
