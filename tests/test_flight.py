"""Who is to blame when children die: simulated children, no processes."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxbatch.errors import DeviceLost
from mlxbatch.flight import PATIENCE, STALL, Flight
from mlxbatch.types import Job, JobFailed, Output, WindowStats
from tests.jobs import job


def output(number: int, *, last: bool = True) -> Output:
    return Output(number, 0, (), WindowStats(0.0, 1.0, 1, 0.1), last=last)


def sent(flight: Flight) -> list[int]:
    """What goes to the child now."""
    taken: list[Job] = []
    while (one := flight.take_off()) is not None:
        taken.append(one)
    return [one.id for one in taken]


def flight_of(*numbers: int) -> Flight:
    flight = Flight()
    for number in numbers:
        flight.add(job(number, 0))
    return flight


def test_all_goes_to_the_child_at_once() -> None:
    flight = flight_of(0, 1, 2)
    assert sent(flight) == [0, 1, 2]
    assert (len(flight), flight.unsent) == (3, 0)
    flight.settle(output(1, last=False))
    flight.settle(output(1))
    flight.settle(JobFailed(0, "cause"))
    assert len(flight) == 1


def test_suspects_are_halved_until_the_one_at_fault_dies_alone() -> None:
    flight = flight_of(0, 1, 2, 3, 4)
    sent(flight)
    flight.add(job(5, 0))
    assert flight.crash("killed") is None
    assert sent(flight) == [0, 1, 2]
    flight.settle(output(0, last=False))
    assert sent(flight) == [], "it is not finished yet"
    flight.settle(output(0))
    assert flight.crash("killed") is None
    assert sent(flight) == [1]
    flight.settle(output(1))
    assert sent(flight) == [2]
    assert flight.crash("killed") is None, "dying once by itself proves nothing"
    assert sent(flight) == [2]
    assert flight.crash("killed") == JobFailed(2, "killed", deadly=True)
    assert sent(flight) == [3, 4], "the other half, cleared together"
    flight.settle(output(4))
    flight.settle(output(3))
    assert sent(flight) == [5]
    flight.settle(output(5))
    assert not len(flight)


def test_a_single_one_needs_more_than_one_death() -> None:
    flight = flight_of(0)
    for _ in range(2):
        assert sent(flight) == [0]
        assert flight.crash("killed") is None
    assert sent(flight) == [0]
    assert flight.crash("killed") == JobFailed(0, "killed", deadly=True)


def test_where_nobody_else_can_be_the_cause_once_alone_is_proof() -> None:
    flight = flight_of(0)
    sent(flight)
    assert flight.crash("stalled", stalled=True) is None, "it was not known to be alone to blame"
    sent(flight)
    assert flight.crash("stalled", stalled=True) == JobFailed(0, "stalled", deadly=True)


def test_what_could_not_be_sent_is_no_suspect() -> None:
    flight = flight_of(0, 1, 2)
    taken = [flight.take_off(), flight.take_off()]
    assert taken[1] is not None
    flight.call_back(taken[1])
    assert flight.crash("killed") is None
    assert sent(flight) == [0]
    flight.settle(output(0))
    assert sent(flight) == [1, 2], "in order, together"


def test_a_suspect_that_could_not_be_sent_stays_one() -> None:
    flight = flight_of(0, 1)
    sent(flight)
    flight.crash("killed")
    suspect = flight.take_off()
    assert suspect is not None
    flight.call_back(suspect)
    assert flight.crash("killed again") is None
    assert sent(flight) == [0]


def test_dying_again_and_again_is_the_machine_s_fault() -> None:
    flight = flight_of(*range(64))
    for _ in range(PATIENCE):
        sent(flight)
        flight.crash("killed by SIGSEGV")
    flight.settle(output(99, last=False))  # something is finished in between
    for _ in range(PATIENCE):
        flight.count_death("killed")
    with pytest.raises(DeviceLost, match=f"died {PATIENCE + 1} times with nothing finished in between: killed by SIGS"):
        flight.crash("killed by SIGSEGV")


def test_stalls_use_up_its_patience_sooner() -> None:
    flight = flight_of(*range(64))
    for _ in range(PATIENCE // STALL):
        sent(flight)
        flight.crash("stalled", stalled=True)
    sent(flight)
    with pytest.raises(DeviceLost, match=f"died {PATIENCE // STALL + 1} times"):
        flight.crash("stalled", stalled=True)


def test_six_deadly_ones_in_a_row_do_not_use_up_its_patience() -> None:
    flight = flight_of(*range(16))
    failed = []
    while len(flight):
        inside = sent(flight)
        if any(number < 6 for number in inside):
            one = flight.crash("killed")
            failed += [one.job_id] if one is not None else []
        else:
            for number in inside:
                flight.settle(output(number))
    assert failed == list(range(6))


@given(st.lists(st.booleans(), max_size=12), st.lists(st.integers(0, 3), max_size=12))
def test_every_job_is_settled_once_and_only_the_deadly_fail(deadly: list[bool], arrivals: list[int]) -> None:
    """`deadly[i]`: job i kills its child; `arrivals`: how many jobs come before each reply of the child."""
    flight, outcome = Flight(), Counter[tuple[int, str]]()
    coming, inside = list(range(len(deadly))), list[int]()
    arrivals = [*arrivals, len(deadly)]
    while coming or len(flight):
        for _ in range(min(arrivals.pop(0) if arrivals else len(coming), len(coming))):
            flight.add(job(coming.pop(0), 0))
        inside += sent(flight)
        if not inside:
            continue
        if deadly[inside[0]]:
            flight.settle(output(-1, last=False))  # patience is another test's matter
            failed = flight.crash("killed")
            inside.clear()
            if failed is not None:
                outcome[failed.job_id, "failed"] += 1
        else:
            number = inside.pop(0)
            flight.settle(output(number))
            outcome[number, "done"] += 1
    assert outcome == {(number, "failed" if bad else "done"): 1 for number, bad in enumerate(deadly)}
