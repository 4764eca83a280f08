"""Patience: worn out by a counter that stands still while somebody watches, and by nothing else."""

from __future__ import annotations

from mlxbatch.watchdog import UNWATCHED, Watchdog


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def watch(dog: Watchdog, clock: Clock, seconds: float, progress: float) -> None:
    """Look twice a second."""
    for _ in range(round(2 * seconds)):
        clock.now += 0.5
        dog.see(progress)


def test_a_counter_that_stands_still_has_stalled() -> None:
    clock = Clock()
    dog = Watchdog(10.0, clock)
    watch(dog, clock, 10, 3)
    assert not dog.stalled
    watch(dog, clock, 1, 3)
    assert dog.stalled


def test_any_other_value_is_progress() -> None:
    clock = Clock()
    dog = Watchdog(10.0, clock)
    for progress in (1, 2, 1, 0, 7):
        watch(dog, clock, 9, progress)
        assert not dog.stalled


def test_patience_begins_anew() -> None:
    clock = Clock()
    dog = Watchdog(10.0, clock)
    watch(dog, clock, 20, 1)
    assert dog.stalled
    dog.begin()
    assert not dog.stalled


def test_time_in_which_nobody_watched_does_not_count() -> None:
    """The watcher was stopped by Ctrl-Z for an hour, or its log's disk hung: what came meanwhile is heard later."""
    clock = Clock()
    dog = Watchdog(10.0, clock)
    watch(dog, clock, 8, 1)
    clock.now += 3600
    dog.see(1)
    assert not dog.stalled
    watch(dog, clock, 1, 1)
    assert not dog.stalled
    watch(dog, clock, 3, 1)
    assert dog.stalled
    assert UNWATCHED < 10
