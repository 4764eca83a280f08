"""Segments whose words get their times on a thread of its own, beside decoding: NumPy's work, no MLX."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from mlxbatch.engines.whisper.alignment import Floats, Steps, emphasis, starts
from mlxbatch.engines.whisper.windows import SECONDS_PER_STAMP, telling
from mlxbatch.engines.whisper.wording import Text, timed_words, within
from mlxbatch.types import Output, Segment


@dataclass(frozen=True, eq=False)
class Spoken:
    """A window's segments and what tells when their words are said.

    `pieces` are each segment's text tokens. `attention` [heads, text tokens + 1, steps of 20 ms], before its softmax,
    is for these, for those of a text that breaks off behind them, and for the end; `logprobs` are the tokens'. `start`
    is where the window begins, in seconds.
    """

    segments: Sequence[Segment]
    pieces: Sequence[Sequence[int]]
    attention: Floats
    logprobs: Sequence[float]
    start: float
    language: str

    @classmethod
    def of(
        cls,
        segments: Sequence[Segment],
        pieces: Sequence[Sequence[int]],
        tokens: Sequence[int],
        logprobs: Sequence[float],
        attention: Floats,
        timestamp_begin: int,
        start: float,
        language: str,
    ) -> Spoken:
        """Of all tokens of the window. Timestamps among them are not aligned: they are said at no time of their own."""
        text = [place for place, token in enumerate(tokens) if token < timestamp_begin]
        said = [logprobs[place] for place in text]
        return cls(segments, pieces, attention[:, [*text, len(tokens)]], said, start, language)


def add_words(windows: Sequence[Spoken], text: Text) -> list[tuple[Segment, ...]]:
    """The segments of each window with their words; a word lies within its segment."""
    found = starts([emphasis(window.attention) for window in windows])
    return [_with_words(window, steps, text) for window, steps in zip(windows, found, strict=True)]


def _with_words(window: Spoken, steps: Steps, text: Text) -> tuple[Segment, ...]:
    times = (window.start + steps * SECONDS_PER_STAMP).tolist()
    words = timed_words(window.pieces, times, window.logprobs, text, window.language)
    return tuple(
        replace(segment, words=within(said, segment.start, segment.end))
        for segment, said in zip(window.segments, words, strict=True)
    )


@dataclass(eq=False)
class Untimed:
    """An output whose segments have no words yet; `batch` times them, at `place` among others."""

    output: Output
    spoken: Spoken
    batch: Future[list[tuple[Segment, ...]]] | None = None
    place: int = 0

    @property
    def done(self) -> bool:
        return self.batch is not None and self.batch.done()

    def result(self) -> Output:
        """The output with words, once they are there."""
        assert self.batch is not None
        return replace(self.output, segments=telling(self.batch.result()[self.place]))


class WordTimer:
    """Times the words of windows that finish together at once, on its thread; there is none before the first."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self._pool = ThreadPoolExecutor(1, "words")
        self._waiting: list[Untimed] = []

    def put(self, output: Output, spoken: Spoken) -> Untimed:
        untimed = Untimed(output, spoken, place=len(self._waiting))
        self._waiting.append(untimed)
        return untimed

    def begin(self) -> None:
        """Begin with all that were put."""
        if not self._waiting:
            return
        batch = self._pool.submit(add_words, [untimed.spoken for untimed in self._waiting], self._text)
        for untimed in self._waiting:
            untimed.batch = batch
        self._waiting = []

    def __enter__(self) -> WordTimer:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()
