"""Where long recordings are cut."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlxbatch.engines.mlx_audio.pieces import pieces

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
