"""Recordings on their way through the engine: cut into pieces, each a row of a batch, and put together in order."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mlxbatch.types import Job, JobFailed, Output, TranscribeOptions
from mlxbatch.vad.speech import Interval

# How much of the text before it a piece is told, in characters.
CONTEXT = 200


@dataclass(frozen=True, slots=True)
class Opened:
    """A recording and its pieces: of each the stretches that are to be heard, in samples. No piece: nobody speaks.

    `problem`: why that cannot be told.
    """

    job: Job
    pieces: Sequence[Sequence[Interval]]
    problem: str = ""


class Recordings(Protocol):
    """What is to be heard, recording by recording; as engines.base.Jobs."""

    def __next__(self) -> Opened: ...

    def ready(self) -> bool: ...


@dataclass(frozen=True, eq=False)
class Cut:
    """A piece of a recording: samples `start` to `stop` of its job, silence where they are not to be `heard`.

    `context` is the text before it; `problem`: why the recording cannot be heard at all.
    """

    job: Job
    index: int
    start: int
    stop: int
    heard: Sequence[Interval]
    sample_rate: int
    alone: bool  # the recording is this one piece
    context: str = ""
    problem: str = ""

    @property
    def samples(self) -> NDArray[np.float32]:
        whole = self.job.samples[self.start : self.stop]
        if self.heard == ((self.start, self.stop),):
            return whole
        samples = np.zeros_like(whole)
        for begin, end in self.heard:
            samples[begin - self.start : end - self.start] = self.job.samples[begin:end]
        return samples

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
        return not any(np.any(self.job.samples[begin:end]) for begin, end in self.heard)


@dataclass
class _Open:
    """A job that is being heard: pieces that were not handed out yet, and what was heard in those that were."""

    waiting: deque[Cut]
    last: int
    heard: dict[int, _Heard] = field(default_factory=lambda: defaultdict(_Heard))
    following: int = 0  # the piece that is to be put out next
    windows: int = 0  # that were put out


@dataclass
class _Heard:
    """What was heard in a piece: outputs that wait for those of earlier pieces, and their number and texts so far."""

    outputs: deque[Output] = field(default_factory=deque)
    parts: int = 0
    texts: list[str] = field(default_factory=list)

    def take(self, output: Output) -> None:
        """A part that comes once more, after its batch had found no memory, was taken already; its end counts."""
        if output.window < self.parts:
            output = replace(output, segments=())
            if not output.last:
                return
        self.parts = max(self.parts, output.window + 1)
        self.outputs.append(output)
        self.texts += [segment.text for segment in output.segments]


class Cuts:
    """The pieces of all jobs (engines.base.Jobs), each as a job with a number of its own.

    With `context` a recording's pieces come one by one, each after what was heard in the one before; else all at once.
    In a `stream` a job is itself a piece of a recording.
    """

    def __init__(self, recordings: Recordings, sample_rate: int, *, context: bool, stream: bool = False) -> None:
        self._recordings, self._rate, self._context, self._stream = recordings, sample_rate, context, stream
        self._open: dict[int, _Open] = {}
        self._cuts: dict[int, Cut] = {}
        self._ready: deque[Job] = deque()
        self._number = -1

    def __iter__(self) -> Iterator[Job]:
        return self

    def __next__(self) -> Job:
        """The next piece. More may come after StopIteration, once a recording's earlier piece was heard."""
        if not self._ready:
            self._begin(next(self._recordings))
        return self._ready.popleft()

    def ready(self) -> bool:
        return bool(self._ready) or self._recordings.ready()

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
        """What became of a piece, under the piece's number, as what is to be told of its recording, in order.

        It may come in parts, numbered as windows, of which the `last` ends the piece.
        """
        whole = isinstance(event, JobFailed) or event.last
        cut = self._cuts.pop(event.job_id) if whole else self._cuts[event.job_id]
        if cut.job.id not in self._open:
            return []
        return [self._fail(cut, event.cause)] if isinstance(event, JobFailed) else list(self._heard(cut, event))

    def _fail(self, cut: Cut, cause: str) -> JobFailed:
        """A piece could not be heard, and so its recording fails; its other pieces are passed over."""
        del self._open[cut.job.id]
        whole = cut.alone or self._stream
        return JobFailed(cut.job.id, cause if whole else f"from {cut.begin:.1f} s on: {cause}")

    def _heard(self, cut: Cut, output: Output) -> Iterator[Output]:
        job = self._open[cut.job.id]
        heard = job.heard[cut.index]
        heard.take(output)
        if job.waiting and output.last:
            self._hand_out(replace(job.waiting.popleft(), context=_context(cut, heard.texts)))
        while job.following in job.heard and (outputs := job.heard[job.following].outputs):
            yield self._put_out(cut.job, job, outputs.popleft())
        if job.following > job.last:
            del self._open[cut.job.id]

    def _put_out(self, recording: Job, job: _Open, output: Output) -> Output:
        """The next of a recording's windows: its place among the recording's, and whether it is the last of them."""
        window, last = job.windows, output.last and job.following == job.last
        job.windows += 1
        if output.last:
            del job.heard[job.following]
            job.following += 1
        return replace(output, job_id=recording.id, window=window, last=last)

    def _begin(self, opened: Opened) -> None:
        cuts = deque(self._cut(opened))
        self._open[opened.job.id] = _Open(cuts, last=len(cuts) - 1)
        for _ in range(1 if self._context else len(cuts)):
            self._hand_out(cuts.popleft())

    def _cut(self, opened: Opened) -> Iterator[Cut]:
        """A recording's pieces; one in which there is nothing to hear, where nobody speaks."""
        job, found = opened.job, opened.pieces
        for index, heard in enumerate(found):
            start, stop = heard[0][0], heard[-1][1]
            alone = len(found) == 1 and not self._stream
            yield Cut(job, index, start, stop, tuple(heard), self._rate, alone)
        if not found:
            yield Cut(job, 0, 0, len(job.samples), (), self._rate, alone=True, problem=opened.problem)

    def _hand_out(self, cut: Cut) -> None:
        """As a job of its own; what takes no work has no length there, and so is in nobody's way."""
        self._number += 1
        self._cuts[self._number] = cut
        samples = cut.job.samples[cut.start : cut.stop if cut.heard else cut.start]
        self._ready.append(replace(cut.job, id=self._number, samples=samples, seconds=len(samples) / self._rate))


def _context(cut: Cut, texts: Sequence[str]) -> str:
    """The end of what was heard up to and in a piece, from the beginning of a word on.

    Pieces of speech may be of a word or two, so what they were told themselves goes on with their text.
    """
    before = [cut.context] if cut.options.vad and cut.context else []
    text = " ".join([*before, *texts])
    return text if len(text) <= CONTEXT else text[-CONTEXT:].partition(" ")[2]
