"""Each step at its share, up at once and down when it has settled, and what it does to the rows. No device."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxbatch.governor import SETTLE, Change, Governor, Policy, Room, Step
from mlxbatch.machine import Machine, Pressure
from mlxbatch.types import Allowance, Readings

GB = 10**9
ROOM = Room(limit=10 * GB, weights=GB, most_rows=8, rows=8)


def around(available: float = 100.0, pressure: Pressure = "normal") -> Machine:
    return Machine(int(available * GB), 128 * GB, pressure, None)


class Ship:
    """A governor and a clock: each look is `SETTLE` and a little later than the one before, unless told otherwise."""

    def __init__(self, policy: Policy | None = None, room: Room = ROOM) -> None:
        self.governor = Governor(room, policy)
        self.governor.needs(GB // 2)
        self.now = 0.0

    def see(
        self,
        used: float,
        *,
        live: int = 8,
        later: float = SETTLE + 0.1,
        cache: float = 0.0,
        shortages: int = 0,
        machine: Machine | None = None,
    ) -> Change | None:
        self.now += later
        readings = Readings(
            active=int(used * GB), cache=int(cache * GB), peak=int(used * GB), live=live, shortages=shortages
        )
        return self.governor.observe(readings, machine or around(), self.now)

    @property
    def allowance(self) -> Allowance:
        return self.governor.allowance


@pytest.mark.parametrize(
    ("used", "step", "rows", "hold", "reclaims"),
    [
        (7.9, "open", 8, False, 0),
        (8.0, "hold", 8, True, 0),
        (8.9, "hold", 8, True, 0),
        (9.0, "shrink", 4, False, 0),
        (9.7, "reclaim", 4, True, 1),
        (12.0, "reclaim", 4, True, 1),
    ],
)
def test_each_step_at_its_share(used: float, step: Step, rows: int, hold: bool, reclaims: int) -> None:
    ship = Ship()
    change = ship.see(used)
    assert (ship.governor.step, ship.allowance) == (step, Allowance(rows, hold, reclaims))
    if step == "open":
        assert change is None
    else:
        assert change is not None
        found = (change.step, change.was, change.why, change.share, change.used, change.limit, change.rows, change.live)
        assert found == (step, "open", "memory", used / 10, int(used * GB), 10 * GB, rows, 8)


def test_up_at_once_and_down_only_below_the_margin_for_a_while() -> None:
    ship = Ship()
    ship.see(8.1, later=0.01)
    assert ship.governor.step == "hold"
    for _ in range(5):
        assert ship.see(7.6) is None, "within the margin of 80 %"
    assert ship.see(7.4, later=0.5) is None, "below it, but not for long"
    change = ship.see(7.4)
    assert change is not None
    assert (change.step, change.was) == ("open", "hold")
    assert not ship.allowance.hold


def test_a_share_that_swings_about_a_step_makes_one_change() -> None:
    ship = Ship()
    changes = [ship.see(8.05 if n % 2 else 7.8, later=0.3) for n in range(60)]
    assert [change.step for change in changes if change is not None] == ["hold"]


def test_rows_are_halved_again_only_after_it_could_have_helped() -> None:
    ship = Ship()
    ship.see(9.2)
    assert ship.see(9.3, live=8, later=0.5) is None
    assert ship.allowance.rows == 4
    for rows in (2, 1, 1):
        ship.see(9.3, live=ship.allowance.rows)
        assert ship.allowance.rows == rows


def test_rows_come_back_by_doubling() -> None:
    ship = Ship()
    ship.see(9.2)
    ship.see(9.2, live=4)
    assert ship.allowance.rows == 2
    ship.see(3.0, live=2, later=0.1)
    found = [2]
    for _ in range(30):  # what four rows seemed to take, while eight were let go, is forgotten slowly
        ship.see(3.0, live=ship.allowance.rows)
        found.append(ship.allowance.rows)
    assert ship.governor.step == "open"
    assert all(before <= after <= 2 * before for before, after in pairwise(found))
    assert found[-1] == 8


def test_what_the_work_really_took_bounds_what_comes_in() -> None:
    """2 GB a row, where half of one was predicted: 7 GB below 80 % are room for three."""
    ship = Ship(room=Room(limit=10 * GB, weights=GB, most_rows=8, rows=1))
    ship.see(3.0, live=1)
    assert ship.allowance.rows == 2
    for _ in range(3):
        ship.see(1.0 + 2 * ship.allowance.rows, live=ship.allowance.rows)
    assert (ship.governor.step, ship.allowance.rows) == ("open", 3)


def test_predictions_that_were_too_high_are_lowered_with_time() -> None:
    """A tenth of what was predicted: rows grow beyond what the plan began with."""
    ship = Ship(room=Room(limit=10 * GB, weights=GB, most_rows=64, rows=8))
    for _ in range(30):
        ship.see(1.0 + 0.05 * ship.allowance.rows, live=ship.allowance.rows)
    assert ship.allowance.rows == 64


def test_what_rows_do_not_change_is_not_laid_at_their_door() -> None:
    """3 GB of work whatever the rows, and nearly half a GB for each: 7 GB below 80 % are room for eight, not for 14."""
    ship = Ship(room=Room(limit=10 * GB, weights=GB, most_rows=16, rows=1, working=3 * GB))
    for _ in range(8):
        ship.see(4.0 + 0.45 * ship.allowance.rows, live=ship.allowance.rows)
    assert (ship.governor.step, ship.allowance.rows) == ("open", 8)


def test_live_rows_are_not_sent_back_for_a_prediction() -> None:
    ship = Ship()
    ship.governor.needs(4 * GB)
    assert ship.see(7.0, live=8) is None
    assert ship.allowance.rows == 8
    ship.see(7.0, live=5)
    assert ship.allowance.rows == 5


def test_slow_windows_at_85_percent_take_a_row_away_each_time() -> None:
    ship = Ship(Policy(latency_limit=2.0))
    for _ in range(100):
        ship.governor.latency(2.5)
    assert ship.see(8.4).step == "hold"  # type: ignore[union-attr]
    change = ship.see(8.6)
    assert change is not None
    assert (change.step, change.was, change.why) == ("slow", "hold", "latency")
    assert ship.allowance == Allowance(7, hold=True)
    for _ in range(4):
        ship.governor.latency(2.5)
    ship.see(8.6, live=7)
    assert ship.allowance == Allowance(7, hold=True), "too few windows with seven rows to judge by"
    ship.governor.latency(2.5)
    ship.see(8.6, live=7)
    assert ship.allowance == Allowance(6, hold=True)


def test_hold_and_slow_do_not_take_turns_at_the_rows() -> None:
    ship = Ship(Policy(latency_limit=2.0))
    for n in range(40):
        for _ in range(50):
            ship.governor.latency(2.5)
        ship.see(8.6 if n % 2 else 8.1, later=0.1)
    assert ship.allowance.rows >= 6, "4 s are two settling times"


def test_between_two_batches_rows_are_halved_and_not_lost() -> None:
    """A generic engine has no live row when it tells of a batch; the peak is that of the batch."""
    ship = Ship()
    ship.see(9.1, live=0)
    assert ship.allowance.rows == 4
    ship.see(9.1, live=0)
    assert ship.allowance.rows == 2


def test_windows_that_were_skipped_as_silence_do_not_count() -> None:
    ship = Ship(Policy(latency_limit=2.0))
    for seconds in [0.0] * 190 + [2.5] * 4:
        ship.governor.latency(seconds)
    ship.see(8.6)
    assert ship.governor.step == "hold"


@pytest.mark.parametrize("latencies", [[], [2.0] * 100, [2.5] + [1.0] * 199, [9.0] * 4])
def test_windows_within_the_limit_are_not_slow(latencies: list[float]) -> None:
    ship = Ship(Policy(latency_limit=2.0))
    for seconds in latencies:
        ship.governor.latency(seconds)
    ship.see(8.6)
    assert (ship.governor.step, ship.allowance.rows) == ("hold", 8)


@pytest.mark.parametrize(("policy", "step"), [(Policy(refuse=True), "refuse"), (Policy(fallback=True), "fallback")])
def test_the_user_s_choice_at_90_percent(policy: Policy, step: Step) -> None:
    ship = Ship(policy)
    assert ship.see(8.9).step == "hold"  # type: ignore[union-attr]
    assert ship.see(9.0).step == step  # type: ignore[union-attr]


def test_refusing_comes_before_a_fallback() -> None:
    assert Ship(Policy(refuse=True, fallback=True)).see(9.9).step == "refuse"  # type: ignore[union-attr]


def test_near_the_limit_the_cache_is_given_back_again_and_again() -> None:
    ship = Ship()
    ship.see(9.8)
    ship.see(9.8, live=4, later=0.1)
    assert ship.allowance.reclaims == 1
    ship.see(9.8, live=4)
    assert ship.allowance == Allowance(2, hold=True, reclaims=2)


def test_a_full_cache_is_given_back_without_a_step() -> None:
    ship = Ship()
    change = ship.see(5.0, cache=4.8)
    assert change is not None
    assert (change.step, change.was, change.why) == ("open", "open", "cache")
    assert ship.allowance == Allowance(8, reclaims=1)
    assert ship.see(5.0, cache=4.8, later=0.1) is None, "it has not had the time"
    assert ship.see(9.6, cache=0.2, later=0.1).step == "shrink"  # type: ignore[union-attr]
    assert ship.allowance.reclaims == 1, "a small cache is nobody's trouble"


def test_the_limit_is_what_the_machine_still_has() -> None:
    """2 GB are left, of which the machine keeps 5 % of 20 GB for others: 5 GB held, 1 GB within reach."""
    ship = Ship()
    machine = Machine(2 * GB, 20 * GB, "normal", None)
    change = ship.see(5.0, machine=machine)
    assert change is not None
    assert (change.limit, change.step, change.available) == (6 * GB, "hold", 2 * GB)
    ship = Ship()
    assert ship.see(5.0, cache=3.0, machine=machine) is None, "our own cache can be had back"


@pytest.mark.parametrize(("pressure", "step"), [("normal", "open"), ("warn", "hold"), ("critical", "reclaim")])
def test_the_system_s_own_word_counts(pressure: Pressure, step: Step) -> None:
    ship = Ship()
    change = ship.see(2.0, machine=around(pressure=pressure))
    assert ship.governor.step == step
    if change is not None:
        assert (change.why, change.pressure) == ("pressure", pressure)


def test_out_of_memory_is_a_step_whatever_the_share() -> None:
    ship = Ship()
    change = ship.see(4.0, shortages=1)
    assert change is not None
    assert (change.step, change.why, change.rows) == ("shrink", "out of memory", 4)
    ship.see(4.0, shortages=1, live=4, later=0.1)
    assert ship.see(4.0, shortages=1, live=4).step == "open"  # type: ignore[union-attr]
    ship.governor.renewed()
    assert ship.see(4.0, shortages=1).step == "shrink"  # type: ignore[union-attr]


@given(
    st.lists(
        st.tuples(
            st.floats(0, 20), st.floats(0, 10), st.integers(0, 8), st.floats(0.01, 5), st.integers(0, 3),
            st.sampled_from(["normal", "warn", "critical"]), st.floats(0, 128),
        ),
        max_size=40,
    )
)  # fmt: skip
def test_whatever_happens_one_row_may_run_and_never_more_than_fit_the_batch(
    looks: list[tuple[float, float, int, float, int, Pressure, float]],
) -> None:
    ship = Ship()
    shortages = 0
    for used, cache, live, later, short, pressure, available in looks:
        shortages += short == 3
        machine = around(available, pressure)
        before = (ship.governor.step, ship.allowance)
        change = ship.see(used, cache=cache, live=live, later=later, shortages=shortages, machine=machine)
        assert 1 <= ship.allowance.rows <= 8
        assert (change is None) == (before == (ship.governor.step, ship.allowance))
        assert ship.allowance.reclaims >= before[1].reclaims
        if used >= 9.0:
            assert ship.governor.step in ("shrink", "reclaim")
