"""Windows that wait for a slot, their features under way: look-ahead over the jobs, in plan order."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle

import mlx.core as mx

from mlxbatch.engines.base import Jobs
from mlxbatch.engines.whisper.windows import Window
from mlxbatch.types import Job, Span
from mlxbatch.vad.ahead import Heard, SpeechAhead

Open = Callable[[Heard], Window | None]
"""The first window of a job's speech; None where there is nothing to do for it."""
Skip = Callable[[Window], Window | None]
"""Done with a window that needs no inference; gives the one after it."""


@dataclass(slots=True)
class Waiting:
    """A window and its features, begun at `began` (time.monotonic); None where they could not be begun."""

    window: Window
    mel: mx.array | None
    began: float


class WindowQueue:
    """Pulls jobs when windows run short and starts each window's log-mel at once, on one of its CPU streams."""

    def __init__(
        self,
        jobs: Jobs,
        look_ahead: int,
        features: Callable[[Window], mx.array],
        opening: Open,
        skip: Skip,
        cpu_streams: int = 1,
        ahead: SpeechAhead | None = None,
    ) -> None:
        self._jobs, self._look_ahead, self._features, self._open, self._skip = jobs, look_ahead, features, opening, skip
        self._ahead = ahead
        self._streams = cycle([mx.new_stream(mx.Device(mx.cpu)) for _ in range(cpu_streams)])
        self._heap: list[tuple[tuple[int, int], Waiting]] = []
        self._more = True
        self.spans: list[Span] = []

    @property
    def exhausted(self) -> bool:
        """Whether no window waits and no job will come."""
        return not self._heap and self.draining

    @property
    def draining(self) -> bool:
        """Whether no further job will come."""
        return not self._more and not self._listening

    @property
    def _listening(self) -> int:
        """Jobs whose speech is being looked for."""
        return self._ahead.pending if self._ahead else 0

    def __len__(self) -> int:
        return len(self._heap)

    def fill(self, *, wait: bool) -> None:
        """Take jobs until the look-ahead is full; blocks for one only where `wait` and nothing is queued.

        For one alone, and for none where any was heard: a silent recording queues nothing, and the next may not come
        before its output is out.
        """
        wait = not self._take_heard(wait=False) and wait
        idle = wait and not self._heap and not self._listening
        while self._more and len(self._heap) + self._listening < self._look_ahead and (idle or self._jobs.ready()):
            idle = False
            try:
                self._begin_job(next(self._jobs))
            except StopIteration:
                self._more = False
        self._take_heard(wait=wait and not self._heap)

    def _begin_job(self, job: Job) -> None:
        """Look for its speech first, where only that is to be heard."""
        if self._ahead and job.options.vad:
            self._ahead.put(job)
        else:
            self.push(self._open(Heard(job, [(0, len(job.samples))])))

    def _take_heard(self, *, wait: bool) -> int:
        """Open the jobs whose speech is known by now, and say how many those were."""
        found = self._ahead.take(wait=wait) if self._ahead else []
        for heard in found:
            self.push(self._open(heard))
        return len(found)

    def push(self, window: Window | None) -> None:
        """Queue a window and start its features; digital silence is skipped, up to the first window with sound."""
        while window is not None and window.silent():
            window = self._skip(window)
        if window is None:
            return
        waiting = Waiting(window, None, time.monotonic())
        # Where there is no memory for them now, features are made when the window is taken.
        with suppress(RuntimeError, MemoryError):
            waiting.mel = self._begin(window)
        heapq.heappush(self._heap, (window.order, waiting))

    def _begin(self, window: Window) -> mx.array:
        with mx.stream(next(self._streams)):
            mel = self._features(window)
        mx.async_eval(mel)
        return mel

    def take(self, count: int) -> list[Waiting]:
        """The next windows, at most `count`."""
        return [heapq.heappop(self._heap)[1] for _ in range(min(count, len(self._heap)))]

    def features(self, taken: list[Waiting]) -> list[mx.array]:
        """The features [frames, n_mels] of windows that were taken, evaluated."""
        features = [self._begin(one.window) if one.mel is None else one.mel for one in taken]
        mx.eval(features)
        now = time.monotonic()
        self.spans.extend(Span("features", one.began, now, 1) for one in taken)
        return features
