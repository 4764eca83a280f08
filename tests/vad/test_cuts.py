"""Cuts: all speech once, in order, none too long, in silence wherever there is any."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxbatch.vad.cuts import cut_from, cuts
from mlxbatch.vad.speech import Interval

LONGEST, APART = 30, 3


@st.composite
def recordings(draw: st.DrawFn) -> list[Interval]:
    """Speech in order; some intervals touch, none is longer than LONGEST."""
    found, at = [], 0
    for pause, length in draw(st.lists(st.tuples(st.integers(0, 40), st.integers(1, LONGEST)), max_size=12)):
        found.append((at + pause, at + pause + length))
        at += pause + length
    return found


def samples(intervals: list[Interval]) -> list[int]:
    return [sample for start, end in intervals for sample in range(start, end)]


@given(recordings())
def test_all_speech_is_in_exactly_one_cut(speech: list[Interval]) -> None:
    found = list(cuts(speech, LONGEST, APART))
    assert set(samples(speech)) <= set(samples(found))
    assert all(before[1] <= after[0] for before, after in pairwise(found))
    assert all(0 < end - start <= LONGEST for start, end in found)


@given(recordings())
def test_cuts_begin_and_end_where_speech_does(speech: list[Interval]) -> None:
    for start, end in cuts(speech, LONGEST, APART):
        assert start in {interval[0] for interval in speech}
        assert end in {interval[1] for interval in speech}


@given(recordings())
def test_a_cut_holds_all_that_fits_and_no_long_pause(speech: list[Interval]) -> None:
    found = list(cuts(speech, LONGEST, APART))
    for start, end in found:
        inside = [interval for interval in speech if start <= interval[0] and interval[1] <= end]
        assert all(after[0] - before[1] <= APART for before, after in pairwise(inside))
    for (start, end), after in pairwise(found):
        first = next(interval for interval in speech if interval[0] == after[0])
        assert after[0] - end > APART or first[1] - start > LONGEST


@given(recordings(), st.integers(0, 400))
def test_a_cut_from_the_middle_goes_on_from_there(speech: list[Interval], at: int) -> None:
    cut = cut_from(speech, at, LONGEST, APART)
    left = [sample for sample in samples(speech) if sample >= at]
    assert (cut is None) == (not left)
    if cut:
        assert cut[0] == left[0]
        assert 0 < cut[1] - cut[0] <= LONGEST


def test_the_example_of_the_module() -> None:
    assert list(cuts([(0, 4), (5, 9), (30, 38)], longest=12, apart=3)) == [(0, 9), (30, 38)]


@pytest.mark.parametrize("speech", [[], [(0, 0)]])
def test_where_nobody_speaks_nothing_is_cut(speech: list[Interval]) -> None:
    assert list(cuts(speech, LONGEST, APART)) == []


def test_what_is_too_long_is_heard_in_parts() -> None:
    assert list(cuts([(5, 75)], LONGEST, APART)) == [(5, 35), (35, 65), (65, 75)]
