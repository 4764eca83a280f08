"""Where long recordings are cut, and what of their speech is in a piece."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlxbatch.engines.mlx_audio.pieces import pieces, speech_pieces
from mlxbatch.vad.speech import Interval

RATE = 1000


def noise(seconds: float) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(round(seconds * RATE)).astype(np.float32)


def test_what_is_short_enough_is_one_piece() -> None:
    assert pieces(noise(30.0), RATE, 30.0) == [(0, 30_000)]
    assert pieces(noise(0.0), RATE, 30.0) == [(0, 0)]


def test_a_cut_lies_in_the_quietest_moment_near_the_limit() -> None:
    samples = noise(50.0)
    samples[24_000:24_300] *= 0.01
    samples[10_000:11_000] = 0.0  # too far before the limit
    ((start, stop), *_) = pieces(samples, RATE, 30.0)
    assert start == 0
    assert 24_000 <= stop <= 24_300


def test_silence_does_not_make_pieces_short() -> None:
    lengths = [stop - start for start, stop in pieces(np.zeros(100_000, np.float32), RATE, 30.0)]
    assert len(lengths) == 4
    assert min(lengths[:-1]) > 29_900


@given(st.integers(0, 20_000), st.floats(0.01, 8.0), st.integers(0, 5))
def test_pieces_are_all_of_it_in_order_and_none_is_too_long(count: int, longest: float, seed: int) -> None:
    samples = np.random.default_rng(seed).standard_normal(count).astype(np.float32)
    found = pieces(samples, RATE, longest)
    assert [start for start, _ in found] == [0, *(stop for _, stop in found[:-1])]
    assert found[-1][1] == count
    assert all(0 < stop - start <= max(1, int(longest * RATE)) for start, stop in found if count)


LONGEST, APART, PAUSE = 30, 10, 3


@st.composite
def spoken(draw: st.DrawFn) -> list[Interval]:
    """Speech in order; some intervals touch, none is longer than LONGEST."""
    found, at = [], 0
    for pause, length in draw(st.lists(st.tuples(st.integers(0, 40), st.integers(1, LONGEST)), max_size=12)):
        found.append((at + pause, at + pause + length))
        at += pause + length
    return found


def samples(intervals: Iterable[Interval]) -> set[int]:
    return {sample for start, end in intervals for sample in range(start, end)}


@given(spoken(), st.sampled_from([PAUSE, APART, LONGEST]))
def test_all_speech_is_heard_once_in_pieces_that_are_not_too_long(speech: list[Interval], apart: int) -> None:
    found = speech_pieces(speech, LONGEST, apart, PAUSE)
    heard = [stretch for piece in found for stretch in piece]
    assert samples(speech) <= samples(heard)
    assert all(before[1] <= after[0] for before, after in pairwise(heard))
    assert all(0 < piece[-1][1] - piece[0][0] <= LONGEST for piece in found)


@given(spoken(), st.sampled_from([PAUSE, APART, LONGEST]))
def test_of_pauses_only_short_ones_are_heard(speech: list[Interval], apart: int) -> None:
    begins, ends = {interval[0] for interval in speech}, {interval[1] for interval in speech}
    for piece in speech_pieces(speech, LONGEST, apart, PAUSE):
        assert all(PAUSE < after[0] - before[1] <= apart for before, after in pairwise(piece))
        for start, end in piece:
            assert start in begins
            assert end in ends
            inside = [one for one in speech if start <= one[0] and one[1] <= end]
            assert all(after[0] - before[1] <= PAUSE for before, after in pairwise(inside))


def test_where_nobody_speaks_there_is_no_piece() -> None:
    assert speech_pieces([], LONGEST, APART, PAUSE) == []


def test_stretches_of_a_piece_lie_between_its_long_pauses() -> None:
    speech = [(0, 4), (5, 9), (14, 18), (40, 44)]
    assert speech_pieces(speech, LONGEST, APART, PAUSE) == [((0, 9), (14, 18)), ((40, 44),)]
    assert speech_pieces(speech, LONGEST, PAUSE, PAUSE) == [((0, 9),), ((14, 18),), ((40, 44),)]
