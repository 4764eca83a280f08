"""Greedy decoding: rows that end at different steps, bounds, numbers that are none."""

from __future__ import annotations

import math

import mlx.core as mx
import pytest

from mlxbatch.engines.mlx_audio.decoding import LEAST_TOKENS, TOKENS_PER_SECOND, follow, token_limit

VOCABULARY = 8
STOP = {0}


def logits(*wanted: int) -> mx.array:
    """Rows in which that token is the likeliest, with a probability of 1/2."""
    rows = [[0.0 if token != one else math.log(VOCABULARY - 1) for token in range(VOCABULARY)] for one in wanted]
    return mx.array(rows)


def count_down(tokens: mx.array) -> mx.array:
    return logits(*(max(0, token - 1) for token in tokens.tolist()))


def test_rows_end_by_themselves() -> None:
    steps: list[int] = []
    rows = follow(logits(3, 1, 5), count_down, STOP, [10, 10, 10], lambda: steps.append(1))
    assert [row.tokens for row in rows] == [[3, 2, 1], [1], [5, 4, 3, 2, 1]]
    assert len(steps) == 6, "and the loop with the last of them"


def test_a_row_ends_at_its_own_limit() -> None:
    rows = follow(logits(5, 5), count_down, STOP, [2, 4], lambda: None)
    assert [row.tokens for row in rows] == [[5, 4], [5, 4, 3, 2]]
    assert [row.cut for row in rows] == [True, True]
    assert not any(row.cut for row in follow(logits(2), count_down, STOP, [3], lambda: None))


def test_the_end_counts_for_the_log_probability() -> None:
    (row,) = follow(logits(1), count_down, STOP, [9], lambda: None)
    assert row.logprob == pytest.approx(2 * math.log(0.5))


@pytest.mark.parametrize("where", [0, 1])
def test_nan_is_the_row_s_that_has_it(where: int) -> None:
    def step(tokens: mx.array) -> mx.array:
        found = count_down(tokens)
        found[where, 4] = mx.nan
        return found

    rows = follow(logits(3, 3), step, STOP, [9, 9], lambda: None)
    assert [row.broken for row in rows] == [number == where for number in range(2)]
    assert rows[1 - where].tokens == [3, 2, 1]


def test_limits() -> None:
    assert token_limit(0.0, None, 10_000) == LEAST_TOKENS
    assert token_limit(60.0, None, 10_000) == LEAST_TOKENS + 60 * TOKENS_PER_SECOND
    assert token_limit(60.0, None, 200) == 200
    assert token_limit(60.0, 7, 200) == 7
    assert token_limit(60.0, 7000, 200) == 200
