"""What an engine is: jobs in, outputs out, on one thread of one process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from mlxbatch.encoder_context import Context
from mlxbatch.types import Job, JobFailed, Output, Readings


class Jobs(Protocol):
    """Jobs in plan order. `next()` may block while a recording is still being decoded."""

    def __iter__(self) -> Iterator[Job]: ...

    def __next__(self) -> Job: ...

    def ready(self) -> bool:
        """Whether `next()` would return, or end, at once: how an engine looks ahead without idling its device."""
        ...


Admit = Callable[[int], int]
"""How many rows may be live in all, given how many are live now. Asked at each refill; at least 1 when none is live.

Less than are live: the engine puts the latest back into its queue, from where they begin again.
"""


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """All that a worker needs to build an engine, small enough to send to a child process.

    `device` holds the fields of `device.DeviceSettings`, as a profile writes them; it is plain data because the parent
    never imports MLX. `bits`: what a model's weights are quantized to on loading, None for as they are stored.
    `segment_seconds`: how long a piece of long audio is, None for what suits the model.
    `vad`: the detector's directory, where only speech is to be heard. `context`: how much of 30 s the encoder of a
    Whisper gets of a short window. `words`: whether jobs will ask for word times, for which memory is kept.
    `stream`: jobs are pieces of recordings, and outputs come as soon as the model says them; it changes none of them.
    """

    engine: str
    model: Path | None = None
    batch_size: int = 8
    dtype: str = "float32"
    bits: int | None = None
    segment_seconds: float | None = None
    encode_rows: int = 1
    encode_streams: int = 1
    cpu_streams: int = 1
    blas_threads: int | None = None
    vad: Path | None = None
    context: Context = field(default_factory=Context)
    words: bool = False
    stream: bool = False
    device: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Footprint:
    """What an engine will say of its memory, told from its model's files before it is built: bytes.

    `weights`, `need` and `working` are those of Engine.
    """

    weights: int
    need: Callable[[float], int]
    working: Callable[[float], int] = lambda longest: 0

    def group(self, needs: Iterable[int], longest: float) -> int:
        """Bytes that rows with these needs take together, weights and all."""
        return self.weights + self.working(longest) + sum(needs)


class Engine(Protocol):
    """Lives on one thread: MLX's streams belong to the thread that made them."""

    sample_rate: int

    def need(self, seconds: float) -> int:
        """Bytes that one job of this length adds while it runs, weights not counted."""
        ...

    def working(self, longest: float) -> int:
        """Bytes that a run takes besides, however many jobs are at work, where the longest has so many seconds."""
        ...

    def weights(self) -> int:
        """Bytes that the loaded weights take."""
        ...

    def memory_limit(self) -> int:
        """Bytes that may be held on the device, weights counted: what a run is planned with."""
        ...

    def run(self, jobs: Jobs, admit: Admit) -> Iterator[Output | JobFailed]:
        """Outputs of all jobs, in any order across jobs, in order within one."""
        ...

    def readings(self) -> Readings:
        """Memory now, and what was worked on since the last call."""
        ...

    def pulse(self) -> Readings:
        """Memory and progress now, without spans: asked from another thread while the engine is at work."""
        ...

    def reclaim(self) -> None:
        """Give memory back that is kept for reuse. On the engine's own thread, between two steps."""
        ...

    def close(self) -> None: ...
