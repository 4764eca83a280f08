"""Speech in, cuts out: what of a recording a model with a limited window hears at a time. Pure; units are samples.

    speech = [(0, 4), (6, 9), (30, 38)]
    cuts(speech, longest=12, keep=3)  ->  Cut((0, 9)), Cut((30, 38))

A cut holds whole intervals of speech, as many as fit, so it begins and ends in silence. A pause of at most `keep` stays
in; a longer one is left out, and times map back across it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from mlxbatch.vad.speech import Interval


@dataclass(frozen=True, slots=True)
class Cut:
    """Pieces of a recording that are heard as one; in order and apart."""

    pieces: tuple[Interval, ...]

    @property
    def start(self) -> int:
        return self.pieces[0][0]

    @property
    def end(self) -> int:
        return self.pieces[-1][1]

    def __len__(self) -> int:
        return sum(end - start for start, end in self.pieces)

    def samples(self, recording: NDArray[np.float32]) -> NDArray[np.float32]:
        """What is heard: a view of the recording where it is one piece."""
        parts = [recording[start:end] for start, end in self.pieces]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def start_of(self, position: int) -> int:
        """Where in the recording that lies which begins at `position` in the cut: where two pieces meet, the later."""
        return self._place(position, bisect_right(self._begins, position) - 1)

    def end_of(self, position: int) -> int:
        """Where in the recording that ends which ends at `position` in the cut: where two pieces meet, the earlier."""
        return self._place(position, max(0, bisect_left(self._begins, position) - 1))

    def _place(self, position: int, piece: int) -> int:
        start, end = self.pieces[piece]
        return min(start + position - self._begins[piece], end)

    @property
    def _begins(self) -> list[int]:
        """Where each piece begins in the cut."""
        return list(accumulate((end - start for start, end in self.pieces[:-1]), initial=0))


def cut_from(speech: Sequence[Interval], at: int, longest: int, keep: int) -> Cut | None:
    """The next cut that begins at `at` or later; None where nobody speaks any more.

    An interval longer than `longest` is heard as far as that goes.
    """
    pieces: list[Interval] = []
    length = 0
    for start, end in speech[bisect_right(speech, at, key=lambda interval: interval[1]) :]:
        begin = max(start, at)
        end = end if pieces else min(end, begin + longest)
        joined = bool(pieces) and begin - pieces[-1][1] <= keep
        length += end - (pieces[-1][1] if joined else begin)
        if pieces and length > longest:
            break
        pieces[-1:] = [(pieces[-1][0], end)] if joined else [*pieces[-1:], (begin, end)]
    return Cut(tuple(pieces)) if pieces else None


def cuts(speech: Sequence[Interval], longest: int, keep: int) -> Iterator[Cut]:
    """All of a recording's speech, in order, each sample of it once."""
    cut = cut_from(speech, 0, longest, keep)
    while cut is not None:
        yield cut
        cut = cut_from(speech, cut.end, longest, keep)
