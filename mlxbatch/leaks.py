"""Does memory grow from group to group, and is a peak higher than it used to be? Pure: bytes in, findings out.

A leak is told from noise by four questions to the series since the engine's process began, warm-up left out:

- How fast? Theil-Sen slope, the median of the slopes between all pairs of points (Theil 1950, "A rank-invariant method
  of linear and polynomial regression analysis"; Sen 1968, JASA 63). Outliers, up to 29 % of the points, do not move it.
- For sure? Mann-Kendall test for a rising trend (Mann 1945, Econometrica 13; Kendall 1975, "Rank Correlation Methods"),
  normal approximation with the correction for ties. It assumes nothing of how the noise is distributed.
- Everywhere? The lowest points of the four quarters rise each time: those of a cache that fills and is cleared do not.
- Or once? A larger shape raises memory in one step, which has a slope and a significant trend as well: a line has to
  fit better than the best single step (least squares on both sides of a change point; Page 1954, Biometrika 41).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

What = Literal["active", "rss", "parent_rss"]

# Groups that are not looked at: the first ones fill caches, and the longest recordings come first.
WARM_UP = 4
# A trend of fewer points is none.
LEAST = 8
# The chance that a series without a trend passes the test for one, at one look.
SIGNIFICANCE = 0.01
# Points kept of a series; when there are more every second one goes, so that all of the run stays in view.
MOST = 512
QUARTERS = 4
# How much of its even share each quarter has to rise: a third, so that noise beside a step does not pass for a rise.
EVENNESS = 1 / 3
# How far a baseline moves towards a new peak, as a share of itself.
STEP = 0.05


@dataclass(frozen=True, slots=True)
class Leak:
    """Memory that grew by about `growth` bytes over `groups` groups, `per_group` each; more than `bound`."""

    what: What
    growth: int
    per_group: int
    groups: int
    bound: int


class LeakWatch:
    """Watches memory after each group: the engine's active memory, its process's RSS, and the parent's.

    A leak is told once; `renewed` starts anew, with the engine's new process. The parent cannot be renewed, and its
    leak is told once a run. Give `rss` without the framework's cache where that counts in it: the cache is a choice.
    """

    def __init__(self, bound: int, warm_up: int = WARM_UP) -> None:
        self._bound, self._warm_up = bound, warm_up
        self._parent = Series(warm_up)
        self.renewed()

    def renewed(self) -> None:
        """The engine's process is a new one."""
        self._engine: dict[What, Series] = {"active": Series(self._warm_up), "rss": Series(self._warm_up)}

    def group(self, active: int, rss: int, parent_rss: int | None = None) -> Leak | None:
        """Take the bytes held after one more group; the leak that shows now, the engine's before the parent's."""
        self._engine["active"].add(active)
        self._engine["rss"].add(rss)
        if parent_rss is not None:
            self._parent.add(parent_rss)
        for what, series in self._engine.items():
            if (leak := _leak(what, series, self._bound)) is not None:
                for told in self._engine.values():
                    told.close()  # one renewal cures both
                return leak
        if (leak := _leak("parent_rss", self._parent, self._bound)) is not None:
            self._parent.close()
        return leak


def _leak(what: What, series: Series, bound: int) -> Leak | None:
    trend = series.trend(bound)
    if trend is None:
        return None
    return Leak(what, round(trend.growth), round(trend.per_group), series.groups, bound)


@dataclass(frozen=True, slots=True)
class Trend:
    per_group: float
    growth: float


class Series:
    """Bytes after each group, of bounded length: every `stride`-th is kept, from the end of the warm-up on."""

    def __init__(self, warm_up: int = 0) -> None:
        self._left = warm_up
        self._kept: list[int] = []
        self._stride = 1
        self.groups = 0  # since the warm-up
        self._fresh = self._closed = False

    def add(self, size: int) -> None:
        if self._closed:
            return
        if self._left:
            self._left -= 1
            return
        self._fresh = self.groups % self._stride == 0
        self.groups += 1
        if not self._fresh:
            return
        self._kept.append(size)
        if len(self._kept) > MOST:
            self._kept = self._kept[::2]
            self._stride *= 2

    def close(self) -> None:
        """Nothing more is to be found here."""
        self._closed = True
        self._kept.clear()

    def trend(self, bound: int) -> Trend | None:
        """The rise, where it is one, and over all groups comes to more than `bound` bytes."""
        if not self._fresh or len(self._kept) < LEAST:
            return None
        sizes = np.asarray(self._kept, np.float64)
        # The cheap questions first: most series are flat.
        rise = least_rise(sizes)
        if rise <= 0 or not is_rather_line_than_step(sizes):
            return None
        per_group = theil_sen(sizes) / self._stride
        growth = per_group * self.groups
        if growth <= bound or rise < EVENNESS * growth / QUARTERS or mann_kendall(sizes) >= SIGNIFICANCE:
            return None
        return Trend(per_group, growth)


def least_rise(sizes: NDArray[np.float64]) -> float:
    """The smallest of the rises from the lowest point of a quarter to that of the next; negative where one falls."""
    lows = [quarter.min() for quarter in np.array_split(sizes, QUARTERS)]
    return float(np.diff(lows).min())


def is_rather_line_than_step(sizes: NDArray[np.float64]) -> bool:
    """Whether a straight line leaves smaller squares than the best single step does."""
    count = len(sizes)
    deviations = sizes - sizes.mean()
    places = np.arange(count) - (count - 1) / 2
    # What each takes off the sum of squares.
    line = (places @ deviations) ** 2 / (places @ places)
    before, sums = np.arange(1, count), np.cumsum(deviations)[:-1]
    step = (sums**2 * count / (before * (count - before))).max()
    return bool(line > step)


def theil_sen(sizes: NDArray[np.float64]) -> float:
    """The median of the slopes between all pairs of equally spaced points, per step."""
    first, second = np.triu_indices(len(sizes), k=1)
    return float(np.median((sizes[second] - sizes[first]) / (second - first)))


def mann_kendall(sizes: NDArray[np.float64]) -> float:
    """The chance (one-sided) that a series without a trend rises as much as this one: near 0 for a rising series."""
    count = len(sizes)
    first, second = np.triu_indices(count, k=1)
    score = int(np.sign(sizes[second] - sizes[first]).sum())
    ties = np.unique(sizes, return_counts=True)[1]
    variance = (_term(count) - sum(_term(int(tied)) for tied in ties)) / 18
    if variance <= 0:
        return 1.0
    # Continuity correction: the score moves in steps of two.
    z = (score - np.sign(score)) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2)) / 2


def _term(count: int) -> int:
    return count * (count - 1) * (2 * count + 5)


# ---- baselines


def shape_key(model_sha: str, dtype: str, rows: int, bucket_seconds: int) -> str:
    """What memory depends on, as one word: the model, its precision, rows at once, and their length's bucket."""
    return f"{model_sha}:{dtype}:{rows}x{bucket_seconds}"


@dataclass(frozen=True, slots=True)
class Excess:
    """`size` bytes where earlier runs took `baseline`: more than `bound` above it."""

    key: str
    size: int
    baseline: int
    bound: int


class Baselines:
    """What earlier runs took by shape, and the most that this one does. As large as the shapes that occur."""

    def __init__(self, known: Mapping[str, int], bound: int) -> None:
        self._known, self._bound = dict(known), bound
        self._most: dict[str, int] = {}
        self._told: set[str] = set()

    def take(self, key: str, size: int) -> Excess | None:
        """Take a size of this run; the excess over the baseline, once for each shape."""
        self._most[key] = max(size, self._most.get(key, 0))
        baseline = self._known.get(key)
        if baseline is None or size - baseline <= self._bound or key in self._told:
            return None
        self._told.add(key)
        return Excess(key, size, baseline, self._bound)

    def updated(self) -> dict[str, int]:
        """The baselines to be kept for later runs, of the shapes that occurred in this one."""
        return {key: updated(self._known.get(key), size) for key, size in self._most.items()}


def updated(old: int | None, peak: int) -> int:
    """A baseline after one more run: moved towards its peak, by a twentieth of itself at most.

    It needs no history and settles near the median of the runs' peaks, as stochastic approximation does (Robbins and
    Monro 1951): a run that went wrong hardly moves it. A minimum would be set for ever by one run whose rows were
    half empty, and would complain about a new version's honest need as long as the output lives; this complains for
    some runs and then takes it as it is.
    """
    if old is None:
        return peak
    most = max(1, round(old * STEP))
    return old + max(-most, min(most, peak - old))
