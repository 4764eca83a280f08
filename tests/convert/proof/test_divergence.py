"""The figures made of each token's divergence."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mlxbatch.convert.proof.divergence import summarize


def test_figures_over_all_tokens_and_errors_over_clips() -> None:
    nats = [np.array([0.0, 0.2]), np.array([0.1, 0.1, 0.6])]
    same = [np.array([True, True]), np.array([True, False, True])]
    found = summarize(nats, same)
    assert (found.tokens, found.median, found.largest) == (5, 0.1, 0.6)
    assert found.mean.value == pytest.approx(0.2)
    # Clips are away from 0.2 a token by 0.2 - 0.4 and 0.8 - 0.6.
    assert found.mean.error == pytest.approx(math.sqrt(2 * 2 * 0.2**2) / 5)
    assert found.same_top.value == 0.8


def test_quantiles_are_those_of_the_tokens() -> None:
    found = summarize([np.arange(1, 1001) / 1000], [np.ones(1000, bool)])
    assert found.quantiles == pytest.approx({"90": 0.9, "95": 0.95, "99": 0.99, "99.9": 0.999}, abs=2e-3)


def test_a_token_without_a_distribution_is_infinitely_far() -> None:
    found = summarize([np.array([0.1] * 19 + [math.nan])], [np.zeros(20, bool)])
    assert (found.mean.value, found.largest) == (math.inf, math.inf)
    assert (found.median, found.quantiles["90"]) == (0.1, 0.1)


def test_without_tokens_there_is_nothing_to_say() -> None:
    with pytest.raises(ValueError, match="no token"):
        summarize([], [])
