"""From the probability of speech in each step to intervals of speech. Pure.

The hysteresis of `get_speech_timestamps` (github.com/snakers4/silero-vad, src/silero_vad/utils_vad.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mlxbatch.vad.layout import STEP_SECONDS

Interval = tuple[int, int]
"""From the first sample to the one after the last."""


@dataclass(frozen=True, slots=True)
class Rule:
    """When speech begins and ends: probabilities of a step, and seconds.

    It begins with a step of `threshold` and ends where all steps of `min_silence` lie below `neg_threshold`. What is
    not longer than `min_speech` is none; the rest grows by `pad` at both ends.
    """

    threshold: float = 0.5
    neg_threshold: float = 0.35
    min_speech: float = 0.1
    min_silence: float = 0.5
    pad: float = 0.4


def speech_intervals(
    probabilities: NDArray[np.float32], count: int, sample_rate: int, longest: int, rule: Rule = Rule()
) -> list[Interval]:
    """Where somebody speaks in a recording of `count` samples: in order, apart, none longer than `longest` samples.

    `probabilities` has one value a step of 32 ms. Speech without a pause for longer than `longest` is cut where a word
    is least probable: those intervals touch.
    """
    step = round(STEP_SECONDS * sample_rate)
    found = [run for run in _runs(probabilities, rule) if (run[1] - run[0]) * STEP_SECONDS > rule.min_speech]
    padded = _padded([(a * step, min(b * step, count)) for a, b in found], count, round(rule.pad * sample_rate))
    return [part for interval in padded for part in _split(interval, probabilities, step, longest)]


def _runs(probabilities: NDArray[np.float32], rule: Rule) -> Iterator[Interval]:
    """Stretches of speech, in steps."""
    silence = rule.min_silence / STEP_SECONDS
    start = quiet = None
    for step, probability in enumerate(probabilities.tolist()):
        if probability >= rule.threshold:
            start, quiet = step if start is None else start, None
        elif probability < rule.neg_threshold and start is not None:
            quiet = step if quiet is None else quiet
            if step - quiet >= silence:
                yield start, quiet
                start = quiet = None
    if start is not None:
        yield start, len(probabilities) if quiet is None else quiet


def _padded(runs: Sequence[Interval], count: int, pad: int) -> list[Interval]:
    """Each longer by `pad` at both ends, by half the pause where two would meet."""
    if not runs:
        return []
    halves = [min(pad, (after[0] - before[1]) // 2) for before, after in pairwise(runs)]
    before, after = [pad, *halves], [*halves, pad]
    return [(max(0, a - x), min(count, b + y)) for (a, b), x, y in zip(runs, before, after, strict=True)]


def _split(interval: Interval, probabilities: NDArray[np.float32], step: int, longest: int) -> Iterator[Interval]:
    """Parts of at most `longest`, each but the last at least half as long."""
    start, end = interval
    while end - start > longest:
        first, last = -(-(start + longest // 2) // step), (start + longest) // step
        cut = (first + int(np.argmin(probabilities[first:last]))) * step
        yield start, cut
        start = cut
    yield start, end
