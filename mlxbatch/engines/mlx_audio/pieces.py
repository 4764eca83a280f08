"""The pieces that a recording is heard in: its speech, or all of it, cut at its quietest moments. Numbers only."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mlxbatch.vad.cuts import cuts
from mlxbatch.vad.speech import Interval

FRAME_SECONDS = 0.05
# How far before the limit a quiet moment is looked for: this share of the limit, and at most so many seconds.
SEARCH_SHARE, SEARCH_SECONDS = 0.5, 10.0


def pieces(samples: NDArray[np.float32], sample_rate: int, longest: float) -> list[tuple[int, int]]:
    """Cut samples [n] into pieces of at most `longest` seconds, without gap or overlap: (start, stop) in samples.

    A cut lies in the middle of the quietest 50 ms (mean square) in the last half of a piece, at most its last 10 s; of
    equals the last one, so that digital silence does not make pieces short. No samples are one empty piece.
    """
    limit = max(1, int(longest * sample_rate))
    found, start = [], 0
    while len(samples) - start > limit:
        stop = start + _cut(samples[start : start + limit], sample_rate)
        found.append((start, stop))
        start = stop
    return [*found, (start, len(samples))]


def speech_pieces(speech: Sequence[Interval], longest: int, apart: int, pause: int) -> list[tuple[Interval, ...]]:
    """Put speech into pieces of at most `longest` samples: of each what is to be heard, in order.

    A piece begins and ends with speech, and has pauses of up to `apart` in it. What lies between two stretches of it
    is a pause of more than `pause`, in which nothing is to be heard. No speech is no piece.
    """
    return [tuple(cuts(_within(speech, piece), longest, pause)) for piece in cuts(speech, longest, apart)]


def _within(speech: Sequence[Interval], piece: Interval) -> Sequence[Interval]:
    start, stop = piece
    first = bisect_left(speech, start, key=lambda interval: interval[0])
    return speech[first : bisect_right(speech, stop, lo=first, key=lambda interval: interval[1])]


def _cut(window: NDArray[np.float32], sample_rate: int) -> int:
    """Where in the window, which is full, the cut goes."""
    frame = max(1, int(FRAME_SECONDS * sample_rate))
    span = int(min(SEARCH_SHARE * len(window), SEARCH_SECONDS * sample_rate))
    count = span // frame
    if count < 2:
        return len(window)
    tail = window[len(window) - count * frame :].reshape(count, frame)
    power = np.einsum("ij,ij->i", tail, tail, dtype=np.float64)
    quietest = count - 1 - int(np.argmin(power[::-1]))
    return len(window) - (count - quietest) * frame + frame // 2
