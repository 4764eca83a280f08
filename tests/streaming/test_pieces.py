"""Pieces are all of a recording, once, and end in pauses where there are any."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxbatch.streaming.pieces import PAUSE_SECONDS, Length, Samples, cut_in, pieces

RATE = 8000
FIRST, FOLLOWING = Length(1.0, 3.0), Length(4.0, 8.0)


def loud(seconds: float, tracks: int = 1, seed: int = 0) -> Samples:
    """Noise without a pause."""
    shape = (round(seconds * RATE), tracks)
    return np.asarray(0.1 * np.random.default_rng(seed).standard_normal(shape), np.float32)


def with_pauses(samples: Samples, *pauses: tuple[float, float], level: float = 0.0) -> Samples:
    """The same at `level` of its loudness from one time to another."""
    for begin, end in pauses:
        samples[round(begin * RATE) : round(end * RATE)] *= level
    return samples


def blocks(samples: Samples, size: int) -> Iterator[Samples]:
    return (samples[start : start + size] for start in range(0, len(samples), size))


@settings(max_examples=30, deadline=None)
@given(
    seconds=st.floats(0, 40),
    size=st.integers(1, 100_000),
    tracks=st.integers(1, 3),
    quiet=st.lists(st.tuples(st.floats(0, 40), st.floats(0, 3)), max_size=6),
)
def test_no_sample_is_lost_or_doubled(seconds: float, size: int, tracks: int, quiet: list[tuple[float, float]]) -> None:
    samples = with_pauses(loud(seconds, tracks), *((begin, begin + length) for begin, length in quiet))
    found = list(pieces(blocks(samples, max(size, 100)), RATE, FIRST, FOLLOWING))
    np.testing.assert_array_equal(np.concatenate([samples[:0], *found]), samples)
    assert all(len(piece) for piece in found)
    # A last piece is as long as it happens to be.
    for length, piece in zip([FIRST] + [FOLLOWING] * len(found), found[:-1], strict=False):
        assert length.shortest * RATE <= len(piece) <= length.longest * RATE
        assert len(piece) % (RATE // 1000) == 0


def test_how_it_is_read_changes_no_piece() -> None:
    samples = with_pauses(loud(40.0), (2.0, 2.6), (9.0, 11.0), level=0.01)
    found = [
        [len(one) for one in pieces(blocks(samples, size), RATE, FIRST, FOLLOWING)] for size in (1000, 8192, 320_000)
    ]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("level", [0.0, 0.003, 0.05])
def test_a_cut_lies_in_the_middle_of_a_pause(level: float) -> None:
    samples = with_pauses(loud(8.0), (5.2, 5.2 + PAUSE_SECONDS + 0.1), level=level)
    middle = (5.25 + PAUSE_SECONDS / 2) * RATE
    assert cut_in(samples, RATE, 4.0) == pytest.approx(middle, abs=0.06 * RATE)


def test_a_pause_before_the_shortest_length_is_not_waited_for() -> None:
    samples = with_pauses(loud(8.0), (1.0, 3.9))
    assert cut_in(samples, RATE, 4.0) >= 4.0 * RATE


def test_without_a_pause_it_lies_in_the_quietest_gap() -> None:
    """Between two words: short, and quieter than all else."""
    samples = with_pauses(loud(8.0), (5.0, 5.3), (6.5, 6.8), level=0.5)
    samples[round(6.5 * RATE) : round(6.8 * RATE)] *= 0.1
    assert 6.5 * RATE < cut_in(samples, RATE, 4.0) < 6.8 * RATE


def test_a_pause_is_one_only_where_nobody_speaks_on_any_track() -> None:
    agent = with_pauses(loud(8.0, seed=1), (4.5, 6.5), level=0.001)
    customer = with_pauses(loud(8.0, seed=2), (5.7, 7.8), level=0.001)
    both = np.concatenate([agent, customer], axis=1)
    # The pause of both is short, so that it is the quietest gap.
    assert 5.7 * RATE < cut_in(both, RATE, 4.0) < 6.5 * RATE


def test_silence_does_not_make_pieces_short() -> None:
    lengths = [
        len(one) / RATE for one in pieces(blocks(np.zeros((RATE * 40, 1), np.float32), 8192), RATE, FIRST, FOLLOWING)
    ]
    assert lengths[0] > FIRST.longest - PAUSE_SECONDS
    assert min(lengths[1:-1]) > FOLLOWING.longest - PAUSE_SECONDS


def test_a_short_recording_is_one_piece_and_an_empty_one_is_none() -> None:
    assert [len(one) for one in pieces([loud(2.5)], RATE, FIRST, FOLLOWING)] == [2.5 * RATE]
    assert list(pieces([], RATE, FIRST, FOLLOWING)) == []
    assert list(pieces([loud(0.0)], RATE, FIRST, FOLLOWING)) == []
