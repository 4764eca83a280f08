"""An engine without a model, for tests of everything around engines: it has a memory size, a speed, and can die."""

from __future__ import annotations

import os
import signal
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import psutil

from mlxbatch.engines.base import Admit, EngineSpec, Footprint, Jobs
from mlxbatch.engines.batching import Padding, run_batches
from mlxbatch.errors import OutOfMemory
from mlxbatch.types import Job, JobFailed, Output, Readings, Segment, Span, WindowStats, Word

BYTES_PER_SECOND = 64_000


@dataclass(frozen=True, slots=True)
class FakeSettings:
    """`extra` of the spec. Times in seconds, memory in bytes; jobs are picked out by their number of samples, and by
    their channel where one is given.

    `leaks` is the bytes of active memory that each batch leaves behind.
    """

    seconds_per_batch: float = 0.0
    memory: int | None = None
    weights: int = 0
    working: int = 0
    bytes_per_second: int = BYTES_PER_SECOND
    memory_limit: int = 4 * 10**9
    padding: str = "fixed"
    load_seconds: float = 0.0
    checksum: bool = False
    raises_on: int | None = None
    dies_on: int | None = None
    hangs_on: int | None = None
    channel: int | None = None
    leaks: int = 0
    signal: int = signal.SIGKILL

    def need(self, seconds: float) -> int:
        return int(seconds * self.bytes_per_second)


def footprint(spec: EngineSpec) -> Footprint:
    """What the fake will say of its memory."""
    settings = FakeSettings(**spec.extra)
    return Footprint(settings.weights, settings.need, lambda longest: settings.working)


class FakeEngine:
    """Says how long each job is, with `checksum` the CRC-32 of its samples too, in words of equal length in time.

    Keeps its batches' sizes in `sizes`.
    """

    sample_rate = 16_000

    def __init__(self, spec: EngineSpec) -> None:
        self._spec, self._settings = spec, FakeSettings(**spec.extra)
        self.sizes: list[int] = []
        self._spans: list[Span] = []
        self._live = self._shortages = 0
        self._peak = self._active = self._settings.weights
        time.sleep(self._settings.load_seconds)

    def need(self, seconds: float) -> int:
        return self._settings.need(seconds)

    def working(self, longest: float) -> int:
        return self._settings.working

    def weights(self) -> int:
        return self._settings.weights

    def memory_limit(self) -> int:
        return self._settings.memory_limit

    def run(self, jobs: Jobs, admit: Admit) -> Iterator[Output | JobFailed]:
        padding = Padding(self._settings.padding)
        size = self._spec.batch_size
        return run_batches(jobs, admit, self._infer, self._short, size=size, padding=padding, look_ahead=1)

    def readings(self) -> Readings:
        spans, self._spans = tuple(self._spans), []
        now = replace(self.pulse(), spans=spans)
        self._peak = self._active
        return now

    def pulse(self) -> Readings:
        return Readings(
            active=self._active,
            peak=self._peak,
            rss=psutil.Process().memory_info().rss,
            live=self._live,
            progress=len(self.sizes),
            shortages=self._shortages,
        )

    def reclaim(self) -> None:
        pass

    def _short(self) -> None:
        self._shortages += 1

    def close(self) -> None:
        pass

    def _infer(self, batch: list[Job]) -> list[Output]:
        began = time.monotonic()
        self.sizes.append(len(batch))
        self._live = len(batch)
        self._misbehave(batch)
        needed = sum(self.need(job.seconds) for job in batch)
        if self._settings.memory is not None and needed > self._settings.memory:
            raise OutOfMemory(f"{needed} bytes asked of {self._settings.memory}")
        self._peak = max(self._peak, self._active + needed)
        self._active += self._settings.leaks
        time.sleep(self._settings.seconds_per_batch)
        self._live = 0
        ended = time.monotonic()
        self._spans.append(Span("infer", began, ended, len(batch)))
        return [self._output(job, ended - began) for job in batch]

    def _misbehave(self, batch: list[Job]) -> None:
        channel = self._settings.channel
        lengths = {len(job.samples) for job in batch if channel is None or job.channel == channel}
        if self._settings.dies_on in lengths:
            os.kill(os.getpid(), self._settings.signal)
        if self._settings.hangs_on in lengths:
            time.sleep(3600)
        if self._settings.raises_on in lengths:
            raise ArithmeticError("the fake engine was told to raise")

    def _output(self, job: Job, latency: float) -> Output:
        text = f"{job.seconds:.2f} seconds of sound"
        if self._settings.checksum:
            text += f" {zlib.crc32(job.samples.tobytes()):08x}"
        words = _words(text, job.seconds) if job.options.words else ()
        segments = (Segment(0.0, job.seconds, text, words, channel=job.channel),) if job.seconds else ()
        stats = WindowStats(0.0, job.seconds, tokens=4, latency=latency)
        return Output(job.id, 0, segments, stats, last=True, language=job.options.language or "en")


def _words(text: str, seconds: float) -> tuple[Word, ...]:
    said = text.split(" ")
    share = seconds / len(said)
    return tuple(Word(n * share, (n + 1) * share, f" {word}", 1.0) for n, word in enumerate(said))
