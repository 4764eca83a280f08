"""Speech in, cuts out: what of a recording a model with a limited window hears at a time. Pure; units are samples.

    speech = [(0, 4), (5, 9), (30, 38)]
    cuts(speech, longest=12, apart=3)  ->  (0, 9), (30, 38)

A cut is a stretch of the recording, pauses of up to `apart` included, so its times are the recording's but for its
start. It holds whole intervals of speech: it begins and ends in silence.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice

from mlxbatch.vad.speech import Interval


def cut_from(speech: Sequence[Interval], at: int, longest: int, apart: int) -> Interval | None:
    """The next cut that begins at `at` or later; None where nobody speaks any more.

    `speech` is in order and does not overlap. An interval longer than `longest` is heard as far as that goes.
    """
    first = bisect_right(speech, at, key=lambda interval: interval[1])
    if first == len(speech):
        return None
    start = max(speech[first][0], at)
    end = min(speech[first][1], start + longest)
    for begin, stop in islice(speech, first + 1, None):
        if begin - end > apart or stop - start > longest:
            break
        end = stop
    return start, end


def cuts(speech: Sequence[Interval], longest: int, apart: int) -> Iterator[Interval]:
    """All of a recording's speech, in order, each sample of it once, in cuts of at most `longest`."""
    cut = cut_from(speech, 0, longest, apart)
    while cut is not None:
        yield cut
        cut = cut_from(speech, cut[1], longest, apart)
