"""A ratio over clips, such as errors per word or nats per token, with its standard error. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its standard error; None where fewer than two clips tell it."""

    value: float
    error: float | None

    def __mul__(self, factor: float) -> Estimate:
        return Estimate(self.value * factor, None if self.error is None else self.error * factor)


def ratio(amounts: Sequence[float], sizes: Sequence[float]) -> Estimate:
    """Sum of amounts over sum of sizes, each pair of one clip: the ratio estimator of a sample of clusters.

    Its standard error (Cochran 1977, "Sampling Techniques", 3rd edition, section 6.4, the clips being a sample of
    infinitely many) takes a clip's tokens or words as one draw: they share a voice and a text, so that the error over
    single tokens would be too small. Where no clip has a size the value is 0 without amounts, else infinity.
    """
    total, clips = math.fsum(sizes), len(sizes)
    if total == 0:
        return Estimate(math.inf if any(amounts) else 0.0, None)
    value = math.fsum(amounts) / total
    if clips < 2 or not math.isfinite(value):
        return Estimate(value, None)
    squares = math.fsum((amount - value * size) ** 2 for amount, size in zip(amounts, sizes, strict=True))
    return Estimate(value, math.sqrt(clips / (clips - 1) * squares) / total)
