"""Speech of recordings found ahead of a model and beside it, on a thread and a CPU stream of its own."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import soxr
from numpy.typing import NDArray

from mlxbatch.types import Job, Span
from mlxbatch.vad.band import SAMPLE_RATE, is_narrow
from mlxbatch.vad.detector import Detector, Probabilities
from mlxbatch.vad.level import gain
from mlxbatch.vad.network import SileroNetwork
from mlxbatch.vad.speech import Interval, speech_intervals

NARROW = SAMPLE_RATE // 2


@dataclass(frozen=True, slots=True)
class Heard:
    """Where somebody speaks in a job, or why that cannot be told."""

    job: Job
    speech: list[Interval]
    problem: str = ""


class SpeechAhead:
    """Takes jobs, gives them back with their speech, many at a time in one batch, in whatever order.

    `put`, `take` and `close` belong to one thread; the work is done on another, since MLX's streams belong to threads.
    `sample_rate` is that of all jobs, in Hz, and `longest` that of `speech_intervals`; all is told in samples at that
    rate, of which a step of 32 ms has a whole number. The networks hear other rates than 16 kHz resampled.
    """

    def __init__(self, networks: Mapping[int, SileroNetwork], longest: int, sample_rate: int = SAMPLE_RATE) -> None:
        self._networks, self._longest, self._rate = networks, longest, sample_rate
        self._inbox: queue.Queue[Job | None] = queue.Queue()
        self._heard: queue.Queue[Heard | Exception] = queue.Queue()
        self._spans: deque[Span] = deque()
        self._closed = False
        self.pending = 0
        self.steps = 0  # chunks that are done: a sign of life for whoever waits
        self._thread = threading.Thread(target=self._work, name="vad", daemon=True)
        self._thread.start()

    def put(self, job: Job) -> None:
        self.pending += 1
        self._inbox.put(job)

    def take(self, *, wait: bool) -> list[Heard]:
        """What is done; waits for one where `wait` and one is pending. Raises what ended the thread."""
        found: list[Heard] = []
        with suppress(queue.Empty):
            while self.pending:
                heard = self._heard.get(block=wait and not found)
                if isinstance(heard, Exception):
                    self._heard.put(heard)  # for whoever asks again
                    raise RuntimeError(f"speech cannot be looked for any more: {heard}") from heard
                found.append(heard)
                self.pending -= 1
        return found

    def spans(self) -> list[Span]:
        """What was worked on since the last call."""
        return [self._spans.popleft() for _ in range(len(self._spans))]

    def close(self) -> None:
        """End the thread after the chunk it is at; what is pending is forgotten."""
        self._closed = True
        self._inbox.put(None)  # wakes it
        self._thread.join()

    # ---- on the thread

    def _work(self) -> None:
        try:
            self._listen()
        except Exception as error:
            self._heard.put(error)

    def _listen(self) -> None:
        self._stream = mx.new_stream(mx.Device(mx.cpu))
        self._detectors = {rate: self._detector(rate) for rate in self._networks}
        while self._seat():
            for rate in self._detectors:
                self._advance(rate)

    def _detector(self, rate: int) -> Detector[Job]:
        return Detector(self._networks[rate], self._stream)

    def _seat(self) -> bool:
        """Seat waiting jobs while rows are free; False at the end. Waits where nothing else is to be done."""
        while min(detector.free for detector in self._detectors.values()):
            try:
                job = self._inbox.get(block=not any(detector.live for detector in self._detectors.values()))
            except queue.Empty:
                break
            if job is None or self._closed:
                return False
            try:
                self._join(job)
            except (RuntimeError, MemoryError) as error:
                self._fail(job, error)
        return not self._closed

    def _join(self, job: Job) -> None:
        sound = job.samples if self._rate == SAMPLE_RATE else _resampled(job.samples, self._rate)
        narrow = is_narrow(sound)
        heard = sound[:: 2 if narrow else 1]
        self._detectors[NARROW if narrow else SAMPLE_RATE].join(job, heard, gain(heard))

    def _advance(self, rate: int) -> None:
        detector, began = self._detectors[rate], time.monotonic()
        if not (rows := detector.live):
            return
        try:
            found = self._chunk(detector)
        except (RuntimeError, MemoryError) as error:
            self._detectors[rate] = self._detector(rate)
            for job in detector.under_way():
                self._fail(job, error)
            return
        self.steps += 1
        self._spans.append(Span("vad", began, time.monotonic(), rows))
        for job, probabilities in found:
            try:
                self._heard.put(self._hear(job, probabilities))
            except MemoryError as error:
                self._fail(job, error)

    def _chunk(self, detector: Detector[Job]) -> list[tuple[Job, Probabilities]]:
        """A chunk further, tried again where memory was short."""
        try:
            return detector.advance()
        except (RuntimeError, MemoryError):
            mx.clear_cache()
            return detector.advance()

    def _fail(self, job: Job, error: Exception) -> None:
        cause = str(error) or type(error).__name__
        self._heard.put(Heard(job, [], f"its speech cannot be told from silence: {cause}"))

    def _hear(self, job: Job, probabilities: Probabilities) -> Heard:
        """A step is 32 ms at any rate, so what is found needs no mapping to the job's own."""
        return Heard(job, speech_intervals(probabilities, len(job.samples), self._rate, self._longest))


def _resampled(samples: NDArray[np.float32], sample_rate: int) -> NDArray[np.float32]:
    return np.asarray(soxr.resample(samples, sample_rate, SAMPLE_RATE), np.float32)
