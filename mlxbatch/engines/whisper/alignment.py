"""When each token was said, from where the decoder looked in the audio: openai/whisper's `find_alignment`. No MLX.

The attention of a few heads runs along the audio as the text does (openai/whisper, timing.py). What it shows above the
average is smoothed, and dynamic time warping (Sakoe and Chiba 1978) finds the likeliest way through it on which time
never runs backwards.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Steps = NDArray[np.int64]

# Steps of 20 ms over which a median is taken (openai/whisper's `medfilt_width`).
WIDTH = 7
# Which of seven values change places where the first is the larger, so that the fourth becomes their median: Devillard
# 1998, "Fast median search". Minima and maxima of whole arrays: a partition of each seven takes seven times as long.
_EXCHANGES = (
    *((0, 5), (0, 3), (1, 6), (2, 4), (0, 1), (3, 5), (2, 6)),
    *((2, 3), (3, 6), (4, 5), (1, 4), (1, 3), (3, 4)),
)


def emphasis(scores: Floats) -> Floats:
    """How much each token, more than others, looks at each step of the audio [tokens, steps].

    `scores` [heads, tokens, steps] are the attention before its softmax, of one window and its own audio alone.
    """
    return np.mean([_median(_distinct(head)) for head in scores], axis=0, dtype=np.float32)


def _distinct(scores: Floats) -> Floats:
    """Attention [tokens, steps], as standard deviations from the mean of all tokens at a step."""
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    weights -= weights.mean(axis=0)
    # With a single token, or a step that all look at alike, there is nothing to tell them apart by.
    deviation = np.sqrt(np.mean(np.square(weights), axis=0))
    return np.divide(weights, deviation, out=np.zeros_like(weights), where=deviation > 0)


def _median(values: Floats) -> Floats:
    """The median of each value [tokens, steps] and its neighbours in time; beyond the ends they are mirrored."""
    steps, reach = values.shape[1], WIDTH // 2
    padded = values[:, _mirrored(np.arange(-reach, steps + reach), steps)]
    near = [padded[:, shift : shift + steps] for shift in range(WIDTH)]
    for a, b in _EXCHANGES:
        near[a], near[b] = np.minimum(near[a], near[b]), np.maximum(near[a], near[b])
    return near[reach]


def _mirrored(places: Steps, count: int) -> Steps:
    """Places inside 0 to `count` - 1 for those beyond: -1 is 1, -2 is 2."""
    period = max(1, 2 * (count - 1))
    places = places % period
    return np.minimum(places, period - places) if count > 1 else np.zeros_like(places)


def starts(windows: Sequence[Floats]) -> list[Steps]:
    """The step at which each token of each window [tokens, steps] begins: the way with the largest sum.

    A way begins at the first token and step, ends at the last of both, and goes on by a token, by a step, or by both.
    A row at a time, of all windows at once: the best way to a place comes along its row from where it entered that, so
    its cost is the row's running sum and the running minimum of what entering cost, less the sum before the entry.
    """
    lengths = np.array([len(window) for window in windows])
    ends = np.array([window.shape[1] - 1 for window in windows])
    costs = np.zeros((lengths.max(), len(windows), ends.max() + 1))
    for index, window in enumerate(windows):
        costs[: len(window), index, : window.shape[1]] = -window
    sums = np.cumsum(costs, axis=2)
    before = sums - costs
    entries = np.zeros(costs.shape, np.int32)
    aside = np.zeros(costs.shape, bool)  # whether a way that enters here comes from the step before, too
    steps = np.arange(costs.shape[2], dtype=np.int32)
    total = sums[0].copy()
    for row in range(1, len(costs)):
        np.less(total[:, :-1], total[:, 1:], out=aside[row, :, 1:])
        total[:, 1:] = np.minimum(total[:, :-1], total[:, 1:])
        total -= before[row]
        best = np.minimum.accumulate(total, axis=1)
        np.maximum.accumulate(np.where(total == best, steps, 0), axis=1, out=entries[row])
        total = best + sums[row]
    return _traced(entries, aside, lengths, ends)


def _traced(entries: NDArray[np.int32], aside: NDArray[np.bool_], lengths: Steps, ends: Steps) -> list[Steps]:
    """Back from each window's last token and step: where each of its rows was entered."""
    n = len(lengths)
    found, place, windows = np.zeros((len(entries), n), np.int64), ends, np.arange(n)
    for row in range(len(entries) - 1, -1, -1):
        found[row] = entries[row, windows, place]
        place = np.where(row < lengths, found[row] - aside[row, windows, found[row]], place)
    return [found[:length, index] for index, length in enumerate(lengths)]
