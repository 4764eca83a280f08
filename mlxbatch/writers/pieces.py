"""A segment's text in pieces that stay whole, each with the time at which it is spoken. Pure.

The text is the segment's own; words give the times. So nothing can be lost or doubled, whatever the words are.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mlxbatch.types import Segment, Word
from mlxbatch.writers.line_breaks import breaks, columns
from mlxbatch.writers.plain import one_line


@dataclass(frozen=True, slots=True)
class Piece:
    """text[begin:end], spoken from `start` to `stop`, in whole milliseconds."""

    begin: int
    end: int
    start: int
    stop: int

    def at(self, index: int) -> int:
        """When the character at an index is reached, as if each took as long as the others."""
        return self.start + round((self.stop - self.start) * (index - self.begin) / (self.end - self.begin))


@dataclass(frozen=True, slots=True)
class Timed:
    """A text in pieces, in order and time. `known`: by its words' times, else by the length of the text."""

    text: str
    pieces: tuple[Piece, ...]
    known: bool


def timed(segment: Segment, text: str, width: int | None, until: float = math.inf) -> Timed:
    """`text` is the segment's on one line, not blank. It is divided at spaces, and where words of a script without
    spaces begin; within such a word only where it is wider than a line.

    Without words the text is spread over the segment, up to `until`, the milliseconds at which its speaker goes on.
    """
    words = _placed(segment.words, text)
    start, stop = _in_order(segment.start, segment.end)
    whole = Piece(0, len(text), start, stop if stop <= until else max(start, int(until)))
    return Timed(text, tuple(_pieces(text, words or [whole], math.inf if width is None else width)), bool(words))


def milliseconds(seconds: float) -> int:
    """Whole milliseconds, 0 for what is before the start or no number."""
    return max(0, round(seconds * 1000)) if math.isfinite(seconds) else 0


def _placed(words: Iterable[Word], text: str) -> list[Piece]:
    """Where in the text each word stands; nothing where they are not what the text is made of.

    Times never go back: a word begins when the one before it does at the earliest, and that one is over by then.
    """
    found: list[Piece] = []
    at = now = 0
    for word in words:
        if said := one_line(word.text):
            begin = at + text.startswith(" ", at)
            if not text.startswith(said, begin):
                return []
            at, (now, stop) = begin + len(said), _in_order(word.start, word.end, now)
            found.append(Piece(begin, at, now, stop))
    return _apart(found) if at == len(text) else []


def _in_order(start: float, stop: float, earliest: int = 0) -> tuple[int, int]:
    begin = max(earliest, milliseconds(start))
    return begin, max(begin, milliseconds(stop))


def _apart(found: Sequence[Piece]) -> list[Piece]:
    ends = [min(one.stop, following.start) for one, following in pairwise(found)]
    return [Piece(p.begin, p.end, p.start, stop) for p, stop in zip(found, [*ends, found[-1].stop], strict=True)]


def _pieces(text: str, words: Sequence[Piece], width: float) -> Iterable[Piece]:
    begins = [word.begin for word in words]
    too_wide = {word.begin for word in words if columns(text[word.begin : word.end]) > width}

    def word(index: int) -> Piece:
        return words[bisect_right(begins, index) - 1]

    def divides(at: int) -> bool:
        begin = word(at).begin
        return text[at - 1] == " " or at == begin or begin in too_wide

    for begin, following in pairwise([0, *filter(divides, breaks(text)), len(text)]):
        end = following - (text[following - 1] == " ")
        last = word(end - 1)
        yield Piece(begin, end, word(begin).at(begin), last.at(min(following, last.end)))
