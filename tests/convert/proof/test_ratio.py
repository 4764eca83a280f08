"""Ratios over clips and their standard errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mlxbatch.convert.proof.ratio import Estimate, ratio


def test_it_is_the_ratio_of_the_sums() -> None:
    assert ratio([1, 0, 3], [10, 5, 25]).value == 0.1


def test_its_error_by_hand() -> None:
    """Away from the ratio by 1 and -1 over 4 words: sqrt(2 / 1 * (1 + 1)) / 4."""
    assert ratio([2, 0], [2, 2]) == Estimate(0.5, pytest.approx(math.sqrt(2 * 2) / 4))


def test_clips_that_agree_leave_no_doubt() -> None:
    assert ratio([1, 2, 3], [10, 20, 30]) == Estimate(0.1, pytest.approx(0.0))


def test_one_clip_alone_tells_no_error() -> None:
    assert ratio([3], [10]) == Estimate(0.3, None)


def test_without_sizes_it_is_nothing_or_infinite() -> None:
    assert ratio([0, 0], [0, 0]) == Estimate(0.0, None)
    assert ratio([1, 0], [0, 0]) == Estimate(math.inf, None)
    assert ratio([math.inf, 1.0], [1, 1]) == Estimate(math.inf, None)


def test_the_error_is_how_far_samples_scatter() -> None:
    """Clips of correlated tokens: over many samples the ratio scatters as each says, and more than tokens say."""
    rng = np.random.default_rng(1)
    ratios, errors, naive = [], [], []
    for _ in range(400):
        sizes = rng.integers(5, 40, 50)
        tokens = [rng.exponential(1.0) + 0.1 * rng.standard_normal(size) for size in sizes]
        found = ratio([float(some.sum()) for some in tokens], [int(size) for size in sizes])
        assert found.error is not None
        ratios.append(found.value)
        errors.append(found.error)
        every = np.concatenate(tokens)
        naive.append(every.std() / math.sqrt(len(every)))
    assert np.mean(errors) == pytest.approx(np.std(ratios), rel=0.15)
    assert np.mean(naive) < 0.5 * np.std(ratios)


def test_a_share_becomes_points() -> None:
    assert Estimate(0.02, 0.01) * 100 == Estimate(2.0, 1.0)
    assert Estimate(0.02, None) * 100 == Estimate(2.0, None)
