"""Probabilities to intervals: Silero's own algorithm, to the sample where nothing is merged."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mlxbatch.vad.speech import Interval, Rule, speech_intervals

STEP = 512
PLAIN = Rule(min_speech=0.0, min_silence=0.064, pad=0.0)
LONGEST = 480_000


def heard(*values: float, rule: Rule = PLAIN, longest: int = LONGEST) -> list[Interval]:
    """Intervals in steps, of recordings that are whole steps long."""
    found = speech_intervals(np.array(values, np.float32), len(values) * STEP, 16_000, longest, rule)
    assert all(start % STEP == end % STEP == 0 for start, end in found)
    return [(start // STEP, end // STEP) for start, end in found]


def test_speech_begins_at_the_threshold_and_ends_below_the_lower_one() -> None:
    assert heard(0, 0.49, 0.5, 0.4, 0.36, 0.2, 0.2, 0.2, 0) == [(2, 5)]


def test_a_short_silence_ends_nothing() -> None:
    assert heard(0.9, 0.1, 0.1, 0.9, 0.1, 0.1, 0.1, 0.9) == [(0, 4), (7, 8)]


def test_what_hovers_between_the_thresholds_keeps_a_silence_running() -> None:
    """As in Silero's code: only a step of speech ends it."""
    assert heard(0.9, 0.1, 0.4, 0.1, 0.1) == [(0, 1)]


def test_speech_up_to_the_end() -> None:
    assert heard(0, 0.9, 0.9) == [(1, 3)]
    assert heard(0, 0.9, 0.9, 0.1) == [(1, 3)]


def test_what_is_too_short_is_none() -> None:
    rule = Rule(min_speech=0.1, min_silence=0.064, pad=0.0)
    assert heard(0, 0.9, 0.9, 0.9, 0, 0, 0, 0.9, 0.9, 0.9, 0.9, 0, 0, 0, rule=rule) == [(7, 11)]


def test_nothing_at_all() -> None:
    assert heard() == []
    assert heard(0, 0, 0) == []


def test_padding_stops_at_the_recording_s_ends_and_halfway_to_its_neighbour() -> None:
    probabilities = np.array([0.9, 0, 0, 0, 0, 0.9, 0], np.float32)
    rule = Rule(min_speech=0.0, min_silence=0.064, pad=0.1)
    assert speech_intervals(probabilities, 7 * STEP - 100, 16_000, LONGEST, rule) == [(0, 3 * STEP), (3 * STEP, 3484)]


def test_the_last_step_may_be_longer_than_the_recording() -> None:
    assert speech_intervals(np.array([0.9], np.float32), 100, 16_000, LONGEST, PLAIN) == [(0, 100)]


def test_speech_without_a_pause_is_cut_where_a_word_is_least_probable() -> None:
    values = [0.9] * 25
    values[3], values[7], values[14] = 0.5, 0.6, 0.7
    assert heard(*values, longest=10 * STEP) == [(0, 7), (7, 14), (14, 19), (19, 25)]


def test_other_rates_have_longer_and_shorter_steps() -> None:
    probabilities = np.array([0, 0.9, 0.9], np.float32)
    assert speech_intervals(probabilities, 3 * 256, 8_000, LONGEST, PLAIN) == [(256, 768)]


@st.composite
def curves(draw: st.DrawFn) -> NDArray[np.float32]:
    runs = draw(st.lists(st.tuples(st.sampled_from([0.0, 0.3, 0.4, 0.6, 1.0]), st.integers(1, 60)), max_size=20))
    return np.array([value for value, length in runs for _ in range(length)], np.float32)


@given(curves(), st.integers(0, STEP - 1), st.sampled_from([Rule(), PLAIN, Rule(pad=1.0)]))
def test_intervals_are_in_order_apart_inside_and_not_too_long(
    probabilities: NDArray[np.float32], less: int, rule: Rule
) -> None:
    count = max(0, len(probabilities) * STEP - less)
    found = speech_intervals(probabilities, count, 16_000, 20 * STEP, rule)
    assert all(0 <= start < end <= count for start, end in found)
    assert all(end - start <= 20 * STEP for start, end in found)
    assert all(before[1] <= after[0] for before, after in pairwise(found))
