"""Many windows through one engine, and the device's memory beside them: for the short proof and the long one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
from safetensors.numpy import save_file

from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.whisper.engine import WhisperEngine
from mlxbatch.types import Job, Output
from tests.engines.whisper.parts import GREEDY, job, noise, write_config
from tests.jobs import RATE
from tests.models.tiny import TINY_DIMS, tiny_tensors, write_tiny_whisper

BRIEF = replace(GREEDY, max_tokens=8, logprob_threshold=-99.0, compression_ratio_threshold=99.0)
WAYS = (
    BRIEF,
    replace(BRIEF, language=None),
    replace(BRIEF, prompt="the a and", hotwords=("Ann",)),
    replace(BRIEF, task="translate", language="de", max_tokens=12),
    replace(BRIEF, prompt="a " * 20),
    replace(BRIEF, temperatures=(0.7,)),
    # Doubtful: encoded again with the full context, then sampled.
    replace(BRIEF, temperatures=(0.0, 0.5), logprob_threshold=0.0),
)
# Seconds. Seven ways and three lengths: each way meets each length within a cycle.
LENGTHS = (0.4, 28.0, 4.3)
CYCLE = len(WAYS) * len(LENGTHS)


def smallest_whisper(directory: Path) -> Path:
    """One layer of one head, 16 wide: next to nothing but what the windows themselves take."""
    write_tiny_whisper(directory)
    dims = replace(
        TINY_DIMS, n_audio_state=16, n_audio_head=1, n_audio_layer=1,
        n_text_ctx=64, n_text_state=16, n_text_head=1, n_text_layer=1,
    )  # fmt: skip
    save_file(tiny_tensors(dims=dims), directory / "model.safetensors", metadata={"format": "mlx"})
    write_config(directory, dims)
    return directory


class Cycles:
    """The same recordings in the same ways, over and over (engines.base.Jobs).

    The last of each cycle comes when all before are done, and the next cycle when that one is: nothing is live then,
    and the slots have shrunk to one row. `quiet` is called at that moment.
    """

    def __init__(self, cycles: int, quiet: Callable[[], None]) -> None:
        self._count, self._quiet, self._given = cycles * CYCLE, quiet, 0

    def __iter__(self) -> Iterator[Job]:
        return self

    def __next__(self) -> Job:
        number = self._given
        if number % CYCLE == 0 and number:
            self._quiet()
        if number == self._count:
            raise StopIteration
        self._given += 1
        place = number % CYCLE
        samples = noise(round(LENGTHS[place % len(LENGTHS)] * RATE), place)
        return job(number, samples, WAYS[place % len(WAYS)])

    def ready(self) -> bool:
        return self._given % CYCLE not in (0, CYCLE - 1)


def active_memory(model: Path, cycles: int) -> tuple[list[int], int]:
    """Bytes that are active on the device after each cycle, when nothing is live; and how many windows there were."""
    active: list[int] = []

    def quiet() -> None:
        mx.synchronize()
        active.append(engine.pulse().active)

    with closing(WhisperEngine(EngineSpec("whisper", model, batch_size=8, device={"kind": "cpu"}))) as engine:
        windows = 0
        for event in engine.run(Cycles(cycles, quiet), lambda live: 8):
            assert isinstance(event, Output), event
            windows += 1
    return active, windows


def growth(active: list[int]) -> float:
    """By what share the most that was active after a cycle is above the least; the first one is warm-up."""
    steady = active[1:]
    return max(steady) / min(steady) - 1
