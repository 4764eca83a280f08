"""A leak is told from noise, steps and caches; a peak from what earlier runs took."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mlxbatch import leaks
from mlxbatch.leaks import (
    LEAST,
    MOST,
    WARM_UP,
    Baselines,
    Excess,
    Leak,
    LeakWatch,
    Series,
    mann_kendall,
    shape_key,
    theil_sen,
    updated,
)

GB = 10**9
MB = 10**6
BOUND = GB

Sizes = NDArray[np.float64]
lengths = st.integers(LEAST, 120)
seeds = st.integers(0, 2**32 - 1)


def watched(sizes: Iterable[float], watch: LeakWatch | None = None) -> Leak | None:
    """The first leak of a series of active memory that needs no warm-up; RSS stays where it is."""
    watch = watch or LeakWatch(BOUND, warm_up=0)
    return next((leak for size in sizes if (leak := watch.group(int(size), 3 * GB))), None)


def noise(count: int, spread: float, seed: int) -> Sizes:
    return np.random.default_rng(seed).normal(0, spread, count)


# ---- what fires


@settings(deadline=None, derandomize=True, max_examples=50)
@given(lengths, st.floats(1.3, 30), st.floats(0, 0.05), seeds)
def test_growth_of_more_than_the_bound_over_the_run_is_a_leak(
    count: int, bounds: float, spread: float, seed: int
) -> None:
    sizes = 5 * GB + bounds * BOUND * np.arange(count) / count + noise(count, spread * BOUND, seed)
    leak = watched(sizes)
    assert leak is not None
    assert (leak.what, leak.bound) == ("active", BOUND)
    assert LEAST <= leak.groups <= count
    assert leak.growth >= BOUND
    assert leak.growth == pytest.approx(leak.per_group * leak.groups, rel=1e-6)
    assert leak.per_group == pytest.approx(bounds * BOUND / count, rel=0.5)


def test_a_leak_is_told_with_its_numbers_as_soon_as_it_passes_the_bound() -> None:
    watch = LeakWatch(BOUND, warm_up=0)
    found = [watch.group(2 * GB, 3 * GB + 100 * MB * number) for number in range(30)]
    assert [number for number, leak in enumerate(found) if leak] == [10]
    assert found[10] == Leak("rss", 1_100 * MB, 100 * MB, 11, BOUND)


def test_growth_within_the_bound_is_none() -> None:
    assert watched(5 * GB + 0.9 * BOUND * np.arange(100) / 100) is None


def test_fewer_groups_than_eight_are_no_trend() -> None:
    watch = LeakWatch(BOUND, warm_up=0)
    found = [watch.group(number * 5 * GB, 0) for number in range(LEAST)]
    assert found[:-1] == [None] * (LEAST - 1)
    assert found[-1] is not None


def test_the_warm_up_is_left_out() -> None:
    watch = LeakWatch(BOUND)
    found = [watch.group(number * 5 * GB, 0) for number in range(WARM_UP + LEAST)]
    assert [number for number, leak in enumerate(found) if leak] == [WARM_UP + LEAST - 1]
    assert found[-1] is not None
    assert found[-1].groups == LEAST


def test_a_leak_is_told_once_until_the_process_is_renewed() -> None:
    watch = LeakWatch(BOUND)
    grow = [5 * GB + number * 500 * MB for number in range(40)]
    assert [watch.group(size, size) is not None for size in grow].count(True) == 1
    watch.renewed()
    again = [watch.group(size, size) for size in grow]
    told = [number for number, leak in enumerate(again) if leak]
    assert told == [WARM_UP + LEAST - 1]


def test_the_parent_s_leak_is_told_once_a_run_and_outlives_a_renewal() -> None:
    watch = LeakWatch(BOUND, warm_up=0)
    found: list[Leak | None] = []
    for number in range(60):
        if number == 10:
            watch.renewed()
        found.append(watch.group(GB, GB, parent_rss=GB + number * 60 * MB))
    assert [leak.what for leak in found if leak] == ["parent_rss"]
    assert found.index(Leak("parent_rss", 1_020 * MB, 60 * MB, 17, BOUND)) == 16


def test_the_engine_s_leak_comes_before_the_parent_s() -> None:
    watch = LeakWatch(BOUND, warm_up=0)
    found = [watch.group(number * GB, number * GB, number * GB) for number in range(12)]
    assert [leak.what for leak in found if leak] == ["active", "parent_rss"]


# ---- what does not


@settings(deadline=None, derandomize=True, max_examples=50)
@given(lengths, st.floats(0, 0.25), seeds)
def test_flat_memory_with_noise_is_no_leak(count: int, spread: float, seed: int) -> None:
    assert watched(5 * GB + noise(count, spread * BOUND, seed)) is None


def alarms(spread: float, runs: int, groups: int) -> int:
    """How many of so many flat runs are called leaking; looked at after each group, as a run does."""
    return sum(watched(50 * GB + noise(groups, spread * BOUND, seed)) is not None for seed in range(runs))


@pytest.mark.parametrize(
    ("spread", "most"),
    [
        (0.1, 0),  # noise of a tenth of the bound: none of 200 runs
        (0.3, 2),  # of a third: 1 % of runs at most
        (1.0, 6),  # noise as large as the bound itself, which no run has: 3 % at most
        (5.0, 6),
    ],
)
def test_false_alarms_are_rare_however_large_the_noise(spread: float, most: int) -> None:
    assert alarms(spread, 200, 60) <= most


@settings(deadline=None, derandomize=True, max_examples=60)
@given(lengths, st.floats(0, 1), st.floats(0, 20), st.floats(0, 0.05), seeds)
def test_a_larger_shape_once_is_no_leak(count: int, at: float, bounds: float, spread: float, seed: int) -> None:
    sizes = 5 * GB + noise(count, spread * BOUND, seed)
    sizes[int(at * count) :] += bounds * BOUND
    assert watched(sizes) is None


@settings(deadline=None, derandomize=True, max_examples=60)
@given(lengths, st.integers(2, LEAST - 1), st.integers(0, LEAST), st.floats(0, 20), st.floats(0, 0.05), seeds)
def test_a_cache_that_fills_and_is_cleared_is_no_leak(
    count: int, period: int, phase: int, bounds: float, spread: float, seed: int
) -> None:
    teeth = (np.arange(count) + phase) % period / (period - 1)
    assert watched(5 * GB + bounds * BOUND * teeth + noise(count, spread * BOUND, seed)) is None


@settings(deadline=None, derandomize=True, max_examples=30)
@given(lengths, st.floats(0, 20), st.floats(0, 0.05), seeds)
def test_memory_that_falls_is_no_leak(count: int, bounds: float, spread: float, seed: int) -> None:
    sizes = 90 * GB - bounds * BOUND * np.arange(count) / count + noise(count, spread * BOUND, seed)
    assert watched(sizes) is None


def test_shapes_that_shrink_do_not_hide_a_leak_for_ever() -> None:
    """Longest first: what is needed falls fast at the beginning, what is lost grows all the time."""
    number = np.arange(200)
    assert watched(5 * GB + 2 * BOUND * np.exp(-number / 5) + 5 * BOUND * number / 200) is not None


# ---- long runs


def test_a_long_run_keeps_a_bounded_series_and_still_finds_a_slow_leak() -> None:
    series = Series()
    found = None
    for number in range(20_000):
        series.add(5 * GB + number * 100_000)
        assert len(series._kept) <= MOST
        found = found or series.trend(BOUND)
    assert series.groups == 20_000
    assert found is not None
    assert found.per_group == pytest.approx(100_000)
    assert BOUND < found.growth < 1.01 * BOUND


def test_what_is_kept_stays_evenly_spaced() -> None:
    series = Series(warm_up=3)
    for number in range(3_000):
        series.add(number)
    assert set(np.diff(series._kept)) == {series._stride}
    assert series._kept[0] == 3


# ---- the statistics themselves


def test_the_slope_of_sen_s_example_is_a_median() -> None:
    assert theil_sen(np.array([1.0, 2.0, 3.0, 4.0])) == 1.0
    assert theil_sen(np.array([0.0, 1.0, 2.0, 300.0, 4.0, 5.0, 6.0])) == 1.0
    assert theil_sen(np.array([7.0, 7.0, 7.0])) == 0.0


@settings(deadline=None, derandomize=True, max_examples=30)
@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=30))
def test_the_slope_is_the_median_over_all_pairs(values: list[int]) -> None:
    pairs = [(values[j] - values[i]) / (j - i) for i in range(len(values)) for j in range(i + 1, len(values))]
    assert theil_sen(np.array(values, np.float64)) == pytest.approx(float(np.median(pairs)))


def test_the_trend_test_has_the_figures_of_the_formula() -> None:
    # n = 10 rising: S = 45, variance 10 * 9 * 25 / 18 = 125, z = 44 / sqrt(125) = 3.935.
    rising = np.arange(10.0)
    assert mann_kendall(rising) == pytest.approx(4.15e-5, rel=0.01)
    assert mann_kendall(-rising) == pytest.approx(1 - 4.15e-5, rel=0.01)
    # Ties: 1 1 2 2 3 3, S = 12, variance (6 * 5 * 17 - 3 * 2 * 1 * 9) / 18 = 25.33, z = 11 / 5.033 = 2.186.
    assert mann_kendall(np.array([1.0, 1, 2, 2, 3, 3])) == pytest.approx(0.0144, rel=0.01)
    assert mann_kendall(np.full(20, 5.0)) == 1.0


def test_the_trend_test_holds_its_level_on_noise_of_any_kind() -> None:
    """At one look 1 % of series without a trend pass: of 3,000 draws 30, and 50 are over three deviations off."""
    dice = np.random.default_rng(4)
    draws = [dice.normal(size=30) for _ in range(1000)]
    draws += [dice.pareto(1.5, size=30) for _ in range(1000)]
    draws += [np.round(dice.normal(size=30)) for _ in range(1000)]
    passed = sum(mann_kendall(draw) < leaks.SIGNIFICANCE for draw in draws)
    assert 10 <= passed <= 50


# ---- baselines

KEY = shape_key("ab12", "float32", 8, 10)


def test_a_shape_is_model_precision_rows_and_bucket() -> None:
    assert KEY == "ab12:float32:8x10"
    others = {shape_key("cd34", "float32", 8, 10), shape_key("ab12", "float16", 8, 10)}
    others |= {shape_key("ab12", "float32", 4, 10), shape_key("ab12", "float32", 8, 15)}
    assert len(others | {KEY}) == 5


def test_a_peak_over_the_baseline_by_more_than_the_bound_is_told_once() -> None:
    baselines = Baselines({KEY: 1_200 * MB}, bound=500 * MB)
    assert baselines.take(KEY, 1_700 * MB) is None
    assert baselines.take(KEY, 1_900 * MB) == Excess(KEY, 1_900 * MB, 1_200 * MB, 500 * MB)
    assert baselines.take(KEY, 2_500 * MB) is None


def test_what_has_no_baseline_yet_gets_one() -> None:
    baselines = Baselines({}, bound=MB)
    assert [baselines.take(KEY, size * MB) for size in (700, 900, 800)] == [None] * 3
    assert baselines.updated() == {KEY: 900 * MB}


def test_shapes_that_did_not_occur_keep_their_baseline() -> None:
    other = shape_key("ab12", "float32", 1, 30)
    baselines = Baselines({KEY: GB, other: 5 * GB}, bound=MB)
    baselines.take(KEY, GB)
    assert baselines.updated() == {KEY: GB}


def test_a_run_that_went_wrong_hardly_moves_the_baseline() -> None:
    assert updated(None, 9 * GB) == 9 * GB
    assert updated(GB, 9 * GB) == 1_050 * MB
    assert updated(GB, 100 * MB) == 950 * MB
    assert updated(GB, 1_020 * MB) == 1_020 * MB


@given(st.integers(1, 100 * GB), st.integers(0, 100 * GB))
def test_a_lasting_change_is_accepted_in_the_end(old: int, peak: int) -> None:
    baseline, before = old, abs(peak - old)
    for _ in range(1_000):
        baseline = updated(baseline, peak)
        assert abs(peak - baseline) <= before
        before = abs(peak - baseline)
    assert before == 0 or (peak < baseline and baseline < 1_000)


def test_the_baseline_settles_near_the_median() -> None:
    dice = np.random.default_rng(2)
    baseline: int | None = None
    for peak in dice.choice([1_000, 1_010, 1_020, 6_000], p=[0.3, 0.3, 0.3, 0.1], size=500):
        baseline = updated(baseline, int(peak) * MB)
    assert baseline is not None
    assert math.isclose(baseline, 1_010 * MB, rel_tol=0.06)
