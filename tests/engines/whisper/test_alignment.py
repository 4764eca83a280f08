"""From attention to the time of each token: the filter, and the way through it, against slow ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mlxbatch.engines.whisper import alignment
from mlxbatch.engines.whisper.alignment import WIDTH, Floats, emphasis, starts


def matrix(rows: list[list[float]]) -> Floats:
    return np.array(rows, np.float32)


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([[1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 1]], [0, 2, 3]),
        ([[1, 0, 0, 0], [0, 1, 1, 1]], [0, 1]),
        ([[1, 1, 1]], [0]),
        ([[5], [5], [5]], [0, 0, 0]),  # more tokens than steps: they share one
        ([[9, 0, 0], [0, 1, 0], [0, 0, 9]], [0, 1, 2]),
        # Time never runs backwards: what the second token sees behind the first is worth less than the rest together.
        ([[0, 0, 3, 3], [5, 0, 0, 0], [0, 0, 0, 3]], [0, 3, 3]),
    ],
)
def test_a_known_way(rows: list[list[float]], wanted: list[int]) -> None:
    assert starts([matrix(rows)])[0].tolist() == wanted


def worth(window: Floats, found: NDArray[np.int64]) -> float:
    """The sum over the way that enters each row where `found` says: diagonally where that is possible, and better."""
    total, last = 0.0, window.shape[1] - 1
    for row, begin in enumerate(found):
        end = last if row + 1 == len(found) else int(found[row + 1])
        # The next row is entered from the step before, or from its own step, whichever is worth more.
        both = row + 1 < len(found) and end > begin and window[row, end] <= 0
        total += float(window[row, begin : end + (not both)].sum())
    return total


def best_worth(window: Floats) -> float:
    """The textbook's recursion, place by place."""
    rows, columns = window.shape
    best = np.full((rows + 1, columns + 1), -np.inf)
    best[0, 0] = 0
    for i, j in itertools.product(range(1, rows + 1), range(1, columns + 1)):
        best[i, j] = window[i - 1, j - 1] + max(best[i - 1, j - 1], best[i - 1, j], best[i, j - 1])
    return float(best[rows, columns])


@given(
    sizes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 14)), min_size=1, max_size=4),
    seed=st.integers(0, 2**32 - 1),
)
def test_no_way_is_worth_more(sizes: list[tuple[int, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    windows = [rng.standard_normal(size).astype(np.float32) for size in sizes]
    for window, found in zip(windows, starts(windows), strict=True):
        assert found[0] == 0
        assert np.all(np.diff(found) >= 0)
        assert found[-1] < window.shape[1]
        assert worth(window, found) == pytest.approx(best_worth(window), abs=1e-4)


@given(sizes=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 9)), min_size=2, max_size=5), seed=st.integers(0, 99))
def test_windows_get_together_what_each_gets_alone(sizes: list[tuple[int, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    windows = [rng.standard_normal(size).astype(np.float32) for size in sizes]
    for together, window in zip(starts(windows), windows, strict=True):
        assert together.tolist() == starts([window])[0].tolist()


def test_the_median_of_any_seven() -> None:
    """Exchanges that sort zeros and ones sort everything (Knuth, The Art of Computer Programming, 5.3.4)."""
    values = np.array(list(itertools.product([0, 1], repeat=WIDTH)), np.float32)
    middle = WIDTH // 2
    assert alignment._median(values)[:, middle].tolist() == np.median(values, axis=1).tolist()


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7, 50])
def test_the_median_mirrors_at_the_ends(steps: int) -> None:
    values = np.random.default_rng(steps).standard_normal((3, steps)).astype(np.float32)
    padded = np.pad(values, ((0, 0), (3, 3)), mode="reflect")
    wanted = np.median(np.lib.stride_tricks.sliding_window_view(padded, WIDTH, axis=1), axis=2)
    assert np.array_equal(alignment._median(values), wanted)


def test_what_all_tokens_look_at_says_nothing() -> None:
    """A step that every token looks at alike, however much, does not count."""
    rng = np.random.default_rng(1)
    scores = rng.standard_normal((2, 5, 40)).astype(np.float32)
    scores[:, :, 20] = 12  # nearly all of each token's attention
    found = emphasis(scores)
    assert found.shape == (5, 40)
    assert np.all(np.isfinite(found))
    assert np.abs(found.mean(axis=0)).max() < 0.5


def test_a_single_token_has_nothing_to_stand_out_from() -> None:
    assert emphasis(np.ones((2, 1, 9), np.float32)).tolist() == [[0.0] * 9]


def test_heads_that_follow_the_audio_are_followed() -> None:
    """Four tokens, each looked for where it is said, in noise."""
    rng = np.random.default_rng(2)
    said = [0, 30, 45, 80, 100]
    scores = rng.standard_normal((3, 4, 100)).astype(np.float32)
    for token, (begin, end) in enumerate(itertools.pairwise(said)):
        scores[:, token, begin:end] += 4
    found = starts([emphasis(scores)])[0]
    assert np.abs(found - said[:4]).max() <= 2
