"""Where a recording of any length is cut into pieces while it is read. Arrays only, shape [n, tracks].

    stream of blocks -> pieces of `shortest` to `longest` seconds, without gap or overlap

A piece is heard as a recording of its own. Windows are parted at pauses of more than a second anyway, so a cut within
such a pause changes nothing; where there is none it lies where all tracks are quietest, which is seldom within a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Samples = NDArray[np.float32]

FRAME_SECONDS = 0.05
# Speech is padded by 0.2 s on both sides of a pause (vad.speech.Rule), which then still has to be over 1 s long.
PAUSE_SECONDS = 1.5
GAP_SECONDS = 0.2
# A stretch is a pause where it is nowhere more than 6 dB above the piece's quiet tenth, and 6 dB below its loud one, or
# where it is below -80 dB.
QUIET, NOTHING = 4.0, 1e-8


@dataclass(frozen=True, slots=True)
class Length:
    """What a piece may last, in seconds."""

    shortest: float
    longest: float


# Short, so that its text comes soon.
FIRST = Length(10.0, 30.0)
# As long as a few windows: each piece ends with one that is not full.
FOLLOWING = Length(60.0, 120.0)


def pieces(blocks: Iterable[Samples], sample_rate: int, first: Length, following: Length) -> Iterator[Samples]:
    """Blocks [n, tracks] of one recording, in its order, as pieces; together they are all of its samples, once.

    A piece begins at a whole millisecond of the recording. No samples are no piece.
    """
    length, waiting, count = first, list[Samples](), 0
    for block in blocks:
        waiting.append(block)
        count += len(block)
        while count >= length.longest * sample_rate:
            samples = np.concatenate(waiting)
            limit = round(length.longest * sample_rate)
            cut = cut_in(samples[:limit], sample_rate, length.shortest)
            waiting, count, length = [samples[cut:].copy()], count - cut, following
            yield samples[:cut]
            del samples  # what is not yielded yet is all that is kept
    if count:
        yield np.concatenate(waiting)


def cut_in(samples: Samples, sample_rate: int, shortest: float) -> int:
    """Where to cut [n, tracks], in samples: in the middle of the quietest stretch after `shortest` seconds.

    That is a pause, where there is one, else the quietest fifth of a second; of equals the last one, so that silence
    does not make pieces short.
    """
    frame = round(FRAME_SECONDS * sample_rate)
    levels = _levels(samples, frame)
    first = round(shortest / FRAME_SECONDS)
    soft, loud = np.quantile(levels, (0.1, 0.9))
    at, level = _quietest(levels[first:], PAUSE_SECONDS)
    if level > min(QUIET * soft, loud / QUIET) + NOTHING:
        at, _ = _quietest(levels[first:], GAP_SECONDS)
    millisecond = sample_rate // gcd(sample_rate, 1000)
    return int((first + at) * frame) // millisecond * millisecond


def _levels(samples: Samples, frame: int) -> NDArray[np.float64]:
    """Mean square of each whole frame, that of the loudest track: where one is quiet, all are."""
    whole = samples[: len(samples) // frame * frame].reshape(-1, frame, samples.shape[1])
    power = np.einsum("fnt,fnt->ft", whole, whole, dtype=np.float64) / frame
    levels: NDArray[np.float64] = power.max(axis=1)
    return levels


def _quietest(levels: NDArray[np.float64], seconds: float) -> tuple[float, float]:
    """The middle of the stretch whose loudest frame is quietest, in frames, and the level of that frame."""
    width = min(round(seconds / FRAME_SECONDS), len(levels))
    loudest = sliding_window_view(levels, width).max(axis=1)
    last = len(loudest) - 1 - int(np.argmin(loudest[::-1]))
    return last + width / 2, float(loudest[last])
