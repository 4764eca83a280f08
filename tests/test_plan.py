"""Order and groups."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxbatch.plan import Countdown, groups, padding_ratio, plan
from mlxbatch.types import Item, Planned, Probed


def probed(*seconds: float) -> list[Probed]:
    return [
        Probed(Item(id=str(i), source=Path(f"{i}.wav"), relpath=Path(f"{i:04}")), length, 16_000, 1)
        for i, length in enumerate(seconds)
    ]


def need(seconds: float) -> int:
    return 10 + round(seconds)


LENGTHS = st.lists(st.floats(0, 7200), max_size=60)


@given(LENGTHS, st.integers(1, 16), st.integers(0, 10_000))
def test_each_item_once_longest_first_within_size_and_budget(
    lengths: list[float], batch_size: int, budget: int
) -> None:
    items = probed(*lengths)
    planned = plan(items, batch_size=batch_size, need=need, budget=budget)
    assert sorted(one.probed.item.id for one in planned) == sorted(one.item.id for one in items)
    assert [one.probed.seconds for one in planned] == sorted(lengths, reverse=True)
    assert [one.group for one in planned] == sorted(one.group for one in planned)
    for members in groups(planned):
        assert len(members) <= batch_size
        assert len(members) == 1 or sum(need(one.seconds) for one in members) <= budget


@given(LENGTHS, st.integers(1, 16), st.integers(0, 10_000))
def test_no_group_could_have_taken_the_next_item(lengths: list[float], batch_size: int, budget: int) -> None:
    parts = groups(plan(probed(*lengths), batch_size=batch_size, need=need, budget=budget))
    for members, following in pairwise(parts):
        grown = [*members, following[0]]
        assert len(grown) > batch_size or sum(need(one.seconds) for one in grown) > budget


@given(st.permutations(range(12)))
def test_the_plan_does_not_depend_on_the_order_of_the_input(order: list[int]) -> None:
    items = probed(5, 5, 5, 1, 1, 9, 9, 2, 2, 2, 7, 7)
    expected = plan(items, batch_size=4, need=need, budget=60)
    assert plan([items[i] for i in order], batch_size=4, need=need, budget=60) == expected


def test_an_item_over_the_budget_is_alone() -> None:
    planned = plan(probed(100, 50, 1, 1), batch_size=8, need=need, budget=30)
    assert [[one.seconds for one in members] for members in groups(planned)] == [[100], [50], [1, 1]]


def test_a_split_recording_takes_a_row_for_each_channel() -> None:
    rows = {"0": 1, "1": 2, "2": 2, "3": 6, "4": 1}
    count = lambda one: rows[one.item.id]  # noqa: E731
    planned = plan(probed(9, 8, 7, 6, 5), batch_size=4, need=need, budget=10**9, rows=count)
    assert [(one.probed.item.id, one.group, one.rows) for one in planned] == [
        ("0", 0, 1),
        ("1", 0, 2),
        ("2", 1, 2),
        ("3", 2, 6),  # more channels than rows: by itself, never divided
        ("4", 3, 1),
    ]
    by_memory = plan(probed(9, 8, 7), batch_size=4, need=need, budget=36, rows=count)
    assert [one.group for one in by_memory] == [0, 1, 2]
    assert padding_ratio(planned) == pytest.approx(2 / (27 + 14 + 36 + 5))


def test_groups_count_from_zero_and_nothing_gives_nothing() -> None:
    assert plan([], batch_size=8, need=need, budget=1) == []
    assert [one.group for one in plan(probed(1, 2, 3), batch_size=2, need=need, budget=10_000)] == [0, 0, 1]


def test_a_batch_size_below_one_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        plan(probed(1), batch_size=0, need=need, budget=1)


def test_padding_ratio_is_what_padding_adds() -> None:
    planned = [Planned(one, group) for one, group in zip(probed(10, 5, 4, 4), (0, 0, 1, 1), strict=True)]
    assert padding_ratio(planned) == pytest.approx(5 / 28)
    assert padding_ratio([]) == 0.0
    assert padding_ratio([Planned(probed(0)[0], 0)]) == 0.0


def test_a_countdown_tells_of_each_group_once_it_is_finished() -> None:
    planned = plan(probed(9.0, 8.0, 2.0), batch_size=2, need=need, budget=10**9)
    countdown = Countdown(planned, now=100.0)
    assert countdown.finished("1", 103.0) is None
    assert countdown.finished("of no group", 103.5) is None
    assert countdown.finished("2", 104.0) == {
        "group": 2,
        "items": 1,
        "seconds": 2.0,
        "longest": 2.0,
        "took": 4.0,
    }
    assert countdown.finished("0", 105.0) == {
        "group": 1, "items": 2, "seconds": 17.0, "longest": 9.0, "took": 1.0
    }  # fmt: skip
