"""Recordings on their way through the engine: cut into pieces, each a row of a batch, and put together in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from mlxbatch.engines.base import Jobs
from mlxbatch.engines.mlx_audio.pieces import pieces
from mlxbatch.types import Job, JobFailed, Output, TranscribeOptions

# How much of a piece's text the next piece is told, in characters.
CONTEXT = 200


@dataclass(frozen=True, eq=False)
class Cut:
    """A piece of a recording: samples `start` to `stop` of its job; `context` is the text before it."""

    job: Job
    index: int
    start: int
    stop: int
    sample_rate: int
    alone: bool  # the recording is this one piece
    context: str = ""

    @property
    def samples(self) -> NDArray[np.float32]:
        return self.job.samples[self.start : self.stop]

    @property
    def begin(self) -> float:
        return self.start / self.sample_rate

    @property
    def seconds(self) -> float:
        return (self.stop - self.start) / self.sample_rate

    @property
    def options(self) -> TranscribeOptions:
        return self.job.options

    def silent(self) -> bool:
        """Digital silence, or nothing at all: there is nothing to hear and much to imagine."""
        return not np.any(self.samples)


@dataclass
class _Open:
    """A job that is being heard: pieces that were not handed out yet, and outputs that wait for earlier ones."""

    waiting: deque[Cut]
    last: int
    outputs: dict[int, Output] = field(default_factory=dict)
    following: int = 0  # the window that is to be put out next


class Cuts:
    """The pieces of all jobs (engines.base.Jobs), each as a job with a number of its own.

    With `context` a recording's pieces come one by one, each after what was heard in the one before; else all at once.
    """

    def __init__(self, jobs: Jobs, sample_rate: int, longest: float, *, context: bool) -> None:
        self._jobs, self._rate, self._longest, self._context = jobs, sample_rate, longest, context
        self._open: dict[int, _Open] = {}
        self._cuts: dict[int, Cut] = {}
        self._ready: deque[Job] = deque()
        self._number = -1

    def __iter__(self) -> Iterator[Job]:
        return self

    def __next__(self) -> Job:
        """The next piece. More may come after StopIteration, once a recording's earlier piece was heard."""
        if not self._ready:
            self._begin(next(self._jobs))
        return self._ready.popleft()

    def ready(self) -> bool:
        return bool(self._ready) or self._jobs.ready()

    def of(self, number: int) -> Cut | None:
        """The piece with that number; None where its recording has failed, and it need not be heard.

        May be asked again: a batch for which there was no memory comes once more.
        """
        cut = self._cuts.get(number)
        if cut is not None and cut.job.id in self._open:
            return cut
        self._cuts.pop(number, None)
        return None

    def take(self, event: Output | JobFailed) -> list[Output | JobFailed]:
        """What became of a piece, under the piece's number, as what is to be told of its recording, in order."""
        cut = self._cuts.pop(event.job_id)
        if cut.job.id not in self._open:
            return []
        return [self._fail(cut, event.cause)] if isinstance(event, JobFailed) else list(self._heard(cut, event))

    def _fail(self, cut: Cut, cause: str) -> JobFailed:
        """A piece could not be heard, and so its recording fails; its other pieces are passed over."""
        del self._open[cut.job.id]
        return JobFailed(cut.job.id, cause if cut.alone else f"from {cut.begin:.1f} s on: {cause}")

    def _heard(self, cut: Cut, output: Output) -> Iterator[Output]:
        job = self._open[cut.job.id]
        job.outputs[cut.index] = replace(output, job_id=cut.job.id, window=cut.index, last=cut.index == job.last)
        if job.waiting:
            self._hand_out(replace(job.waiting.popleft(), context=_tail(output)))
        while job.following in job.outputs:
            yield job.outputs.pop(job.following)
            job.following += 1
        if job.following > job.last:
            del self._open[cut.job.id]

    def _begin(self, job: Job) -> None:
        spans = pieces(job.samples, self._rate, self._longest)
        cuts = deque(
            Cut(job, index, start, stop, self._rate, alone=len(spans) == 1) for index, (start, stop) in enumerate(spans)
        )
        self._open[job.id] = _Open(cuts, last=len(spans) - 1)
        for _ in range(1 if self._context else len(spans)):
            self._hand_out(cuts.popleft())

    def _hand_out(self, cut: Cut) -> None:
        self._number += 1
        self._cuts[self._number] = cut
        self._ready.append(replace(cut.job, id=self._number, samples=cut.samples, seconds=cut.seconds))


def _tail(output: Output) -> str:
    """The end of what was heard, from the beginning of a word on."""
    text = " ".join(segment.text for segment in output.segments)
    return text if len(text) <= CONTEXT else text[-CONTEXT:].partition(" ")[2]
