"""Which models leave: property by property, against the slow way."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxbatch.models.lru import Held, leaving

SHELVES = st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=6).map(
    lambda found: [Held(str(number), size, in_use) for number, (size, in_use) in enumerate(found)]
)


@pytest.mark.parametrize(
    ("asked", "budget", "gone"),
    [
        (10, 60, []),
        (11, 60, ["old"]),
        (21, 60, ["old", "new"]),  # what is in use stays, though it is older than "new"
        (40, 60, ["old", "new"]),
        (41, 60, None),
    ],
)
def test_the_least_recently_used_leave_first(asked: int, budget: int, gone: list[str] | None) -> None:
    held = [Held("old", 10, False), Held("at work", 20, True), Held("new", 20, False)]
    assert leaving(held, asked, budget) == gone


@given(SHELVES, st.integers(0, 30), st.integers(0, 60))
def test_what_is_left_fits_and_nobody_leaves_in_vain(held: list[Held], asked: int, budget: int) -> None:
    gone = leaving(held, asked, budget)
    sizes = {one.key: one.size for one in held}
    idle = [one.key for one in held if not one.in_use]

    def fits(without: tuple[str, ...]) -> bool:
        return sum(sizes.values()) - sum(sizes[key] for key in without) + asked <= budget

    if gone is None:
        assert not any(fits(some) for n in range(len(idle) + 1) for some in combinations(idle, n))
        return
    assert gone == idle[: len(gone)]
    assert fits(tuple(gone))
    assert not gone or not fits(tuple(gone[:-1]))
