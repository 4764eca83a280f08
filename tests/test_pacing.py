"""When a recording may begin, on a clock and a load average of our own."""

from __future__ import annotations

import os
import time

import pytest

from mlxbatch.pacing import EVERY, GRACE, Pace, clock, load_average


class World:
    """A clock that stands still and a load that does not change, unless the test says so."""

    def __init__(self) -> None:
        self.now, self.load, self.looks = 1000.0, 0.0, 0

    def pace(self, stop_at: float | None = None, max_load: float | None = None) -> Pace:
        return Pace(stop_at, max_load, clock=lambda: self.now, load=self._look)

    def _look(self) -> float:
        self.looks += 1
        return self.load


def test_without_limits_everything_begins_and_nobody_looks_at_the_load() -> None:
    world = World()
    pace = world.pace()
    assert [pace.pause(running) for running in (0, 1, 100)] == [0.0, 0.0, 0.0]
    assert not pace.over()
    assert world.looks == 0


@pytest.mark.parametrize("running", [0, 3])
def test_nothing_begins_once_the_time_is_up(running: int) -> None:
    world = World()
    pace = world.pace(stop_at=1010.0, max_load=0.5)
    assert (pace.over(), pace.pause(running)) == (False, 0.0)
    world.now = 1010.0
    assert (pace.over(), pace.pause(running)) == (True, None)


def test_what_was_begun_has_a_grace() -> None:
    world = World()
    pace = world.pace(stop_at=1010.0)
    assert pace.grace() == 10.0 + GRACE
    world.now = 1009.0 + GRACE
    assert pace.grace() == 1.0
    world.now += 5
    assert pace.grace() == 0.0
    assert world.pace().grace() is None


def test_a_busy_machine_holds_all_but_the_only_one_back() -> None:
    world = World()
    pace = world.pace(max_load=4.0)
    world.load = 4.0
    assert pace.pause(1) == 0.0, "at the limit is not over it"
    world.load, world.now = 4.1, world.now + EVERY
    assert pace.pause(1) == EVERY
    assert pace.pause(0) == 0.0


def test_the_load_is_looked_at_every_five_seconds_at_most() -> None:
    world = World()
    pace = world.pace(max_load=1.0)
    for _ in range(100):
        pace.pause(2)
        world.now += 0.1
    assert world.looks == 2


def test_each_change_is_told_once() -> None:
    world = World()
    pace = world.pace(max_load=2.5)
    for load in (1.0, 3.0, 9.0, 2.0, 2.4, 2.6):
        world.load = load
        pace.pause(1)
        world.now += EVERY
    assert list(pace.told) == [
        {"busy": True, "load": 3.0, "max_load": 2.5},
        {"busy": False, "load": 2.0, "max_load": 2.5},
        {"busy": True, "load": 2.6, "max_load": 2.5},
    ]


def test_the_clock_goes_on_while_the_machine_sleeps() -> None:
    """As far as it can be told without putting one to sleep: it is the system's clock that does."""
    before = time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
    assert before <= clock() <= before + 1


def test_a_busy_machine_is_asked_again_when_the_time_is_up() -> None:
    world = World()
    world.load = 9.0
    pace = world.pace(stop_at=1002.0, max_load=1.0)
    assert pace.pause(1) == 2.0
    world.now = 1002.0
    assert pace.pause(1) is None


def test_the_load_is_the_system_s() -> None:
    assert load_average() == pytest.approx(os.getloadavg()[0], abs=0.5)
