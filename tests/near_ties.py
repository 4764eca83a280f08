"""The near-tie rule: where two batches may differ in what a recording says.

A matrix product's rows differ by about 1e-5 with the rows beside them. So a token may be another one where the two best
lie within 1e-3 of each other, and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import pytest

from mlxbatch.engines.whisper.rules import Rules, RuleState

NEAR = 1e-3
# Of log-probabilities and the like in a record, which a batch's rounding reaches; times and texts are as they are.
TOLERANCE = 2e-3


@dataclass
class Choices:
    """Steps that were decoded, and those of them where the choice was a near tie."""

    made: int = 0
    near: int = 0


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Choices]:
    """Counts the choices of whatever is decoded meanwhile, one row at a time: a batch of one."""
    found = Choices()
    choose = Rules.choose

    def watching(
        rules: Rules, logits: mx.array, state: RuleState, noise: mx.array | None = None
    ) -> tuple[mx.array, mx.array]:
        chosen = choose(rules, logits, state, noise)
        places = mx.arange(logits.shape[-1])
        stamps = places >= rules.timestamp_begin
        # The best of what else there was; and what is chosen where timestamps are a little more or less likely, for
        # whether one has to come is decided by all of them together.
        second = choose(rules, mx.where(places == chosen[0], -mx.inf, logits), state, noise)
        more, less = (choose(rules, logits + by * stamps, state, noise)[0].item() for by in (NEAR, -NEAR))
        scores = (logits if noise is None else logits + noise)[0]
        gap = (scores[chosen[0]] - scores[second[0]]).item() if mx.isfinite(second[1]).item() else mx.inf
        found.made += 1
        found.near += gap < NEAR or more != less
        return chosen

    with monkeypatch.context() as patch:
        patch.setattr(Rules, "choose", watching)
        yield found


def close(one: Any, other: Any) -> bool:
    """Whether two records are the same, numbers within the tolerance."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(close(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(close, one, other))
    return bool(one == other)
