"""Prefetch on integers: order, errors in their place, the gate's bounds, and nothing left behind."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxbatch import pipeline
from mlxbatch.pipeline import Gate, Prefetch

ONE = lambda item: 1  # noqa: E731


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.002)


class Caller:
    """`next()` on a thread of its own, and what came of it."""

    def __init__(self, prefetch: Prefetch[int, int]) -> None:
        self.outcome: object = None
        self.thread = threading.Thread(target=self._call, args=(prefetch,))
        self.thread.start()

    def _call(self, prefetch: Prefetch[int, int]) -> None:
        self.outcome = next(prefetch, "end")

    def wait(self) -> object:
        self.thread.join(timeout=5)
        assert not self.thread.is_alive()
        return self.outcome


# ---- order and errors


@given(st.lists(st.integers()), st.integers(0, 3), st.integers(1, 4), st.integers(0, 9))
def test_order_is_kept(items: list[int], workers: int, count: int, size: int) -> None:
    made = Prefetch(lambda item: item * 2, items, workers=workers, count=count, size=size, cost=lambda item: item % 5)
    results = []
    with closing(made) as prefetch:
        for item, result in zip(items, prefetch, strict=False):
            results.append(result)
            prefetch.release(item % 5)
        assert next(prefetch, None) is None
    assert results == [item * 2 for item in items]


def outcomes(prefetch: Prefetch[int, int]) -> Iterator[int | str]:
    """Results and, in their place, the errors' words; errors hold no place that could be given back."""
    while True:
        try:
            yield next(prefetch)
        except StopIteration:
            return
        except ZeroDivisionError as error:
            yield str(error)
        else:
            prefetch.release(1)


@given(st.lists(st.integers(0, 2), max_size=12), st.integers(0, 3), st.integers(1, 3))
def test_errors_surface_in_order(items: list[int], workers: int, count: int) -> None:
    with closing(Prefetch(lambda item: 2 // item, items, workers=workers, count=count, size=9, cost=ONE)) as prefetch:
        found = list(outcomes(prefetch))
    assert [isinstance(one, str) for one in found] == [item == 0 for item in items]
    assert [one for one in found if not isinstance(one, str)] == [2 // item for item in items if item]


def test_serially_it_is_plain_map() -> None:
    worked: list[int] = []
    before = threading.active_count()
    made: Prefetch[int, None] = Prefetch(worked.append, range(9), workers=0, count=9, size=9, cost=ONE)
    with closing(made) as prefetch:
        for number in range(4):
            assert prefetch.ready()
            assert worked == list(range(number)), "worked ahead"
            next(prefetch)
            assert worked[-1] == number
            assert threading.active_count() == before
        prefetch.release(1)
    assert next(prefetch, "end") == "end", "closed, and yet it went on"
    assert worked == [0, 1, 2, 3]


# ---- the gate


class Meter:
    """How much is under way: from the beginning of the work to the release."""

    def __init__(self, costs: list[int]) -> None:
        self.costs = costs
        self.count = self.size = 0
        self.seen: list[tuple[int, int]] = []
        self._lock = threading.Lock()

    def work(self, index: int) -> int:
        with self._lock:
            self.count, self.size = self.count + 1, self.size + self.costs[index]
            self.seen.append((self.count, self.size))
        return index

    def release(self, index: int) -> None:
        with self._lock:
            self.count, self.size = self.count - 1, self.size - self.costs[index]


@given(
    st.lists(st.integers(0, 12), max_size=20),
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(0, 10),
    st.integers(0, 5),
)
def test_what_is_under_way_stays_within_bounds(
    costs: list[int], workers: int, count: int, size: int, keep: int
) -> None:
    """`keep` results are in use at a time, as far as the gate lets them."""
    meter = Meter(costs)
    used: list[int] = []
    made = Prefetch(
        meter.work, range(len(costs)), workers=workers, count=count, size=size, cost=lambda index: costs[index]
    )
    with closing(made) as prefetch:
        for _ in costs:
            while used and (len(used) >= min(keep, count) or not prefetch.ready()):
                meter.release(used[0])
                prefetch.release(costs[used.pop(0)])
            used.append(next(prefetch))
        assert next(prefetch, None) is None
    assert all((n <= count and total <= size) or n == 1 for n, total in meter.seen)
    assert len(meter.seen) == len(costs)


def test_the_gate_is_used_to_the_full() -> None:
    """Work is under way for as many as it lets in, though only one is asked for."""
    meter = Meter([2] * 9)
    with closing(Prefetch(meter.work, range(9), workers=9, count=4, size=100, cost=lambda index: 2)) as prefetch:
        next(prefetch)
        until(lambda: len(meter.seen) == 4)
    with closing(Prefetch(meter.work, range(9), workers=9, count=100, size=7, cost=lambda index: 2)) as prefetch:
        next(prefetch)
        until(lambda: len(meter.seen) == 4 + 3)


def test_one_over_size_goes_alone() -> None:
    gate = Gate(3, 10)
    assert gate.enter(99, wait=False)
    assert not gate.enter(0, wait=False)
    gate.leave(99)
    assert gate.enter(4, wait=False)
    assert gate.enter(6, wait=False)
    assert not gate.enter(1, wait=False)
    gate.leave(4)
    assert gate.enter(4, wait=False)
    gate.close()
    assert not gate.enter(0, wait=True)


def test_a_release_wakes_the_one_who_waits() -> None:
    with closing(Prefetch(abs, range(3), workers=1, count=1, size=9, cost=ONE)) as prefetch:
        assert next(prefetch) == 0
        caller = Caller(prefetch)
        time.sleep(0.05)
        assert caller.thread.is_alive()
        prefetch.release(1)
        assert caller.wait() == 1


# ---- ready


def test_ready_says_whether_next_would_wait() -> None:
    begin = threading.Event()
    with closing(Prefetch(lambda item: begin.wait(5), range(2), workers=1, count=1, size=9, cost=ONE)) as prefetch:
        assert not prefetch.ready(), "the work is not done"
        begin.set()
        until(prefetch.ready)
        next(prefetch)
        assert not prefetch.ready(), "the gate is full"
        prefetch.release(1)
        until(prefetch.ready)
        next(prefetch)
        assert prefetch.ready(), "the end comes at once"
        assert next(prefetch, "end") == "end"


# ---- the end


def test_closing_early_leaves_no_thread() -> None:
    worked: list[int] = []
    prefetch: Prefetch[int, None] = Prefetch(worked.append, range(1000), workers=3, count=5, size=99, cost=ONE)
    next(prefetch)
    prefetch.close()
    prefetch.close()
    assert len(worked) <= 5
    assert next(prefetch, "end") == "end"
    assert prefetch.ready()


def test_closing_frees_who_waits_at_the_gate() -> None:
    prefetch = Prefetch(abs, range(3), workers=1, count=1, size=9, cost=ONE)
    next(prefetch)
    caller = Caller(prefetch)
    time.sleep(0.05)
    prefetch.close()
    assert caller.wait() == "end"


def test_closing_frees_who_waits_for_work_that_has_not_begun() -> None:
    """One worker is at the first item; the second is asked for, and is dropped."""
    begun, go_on = threading.Event(), threading.Event()

    def work(item: int) -> int:
        begun.set()
        go_on.wait(5)
        return item

    prefetch = Prefetch(work, range(3), workers=1, count=3, size=9, cost=ONE)
    first = Caller(prefetch)
    begun.wait(5)
    threading.Timer(0.1, go_on.set).start()
    prefetch.close()
    assert first.wait() in (0, "end")
    assert next(prefetch, "end") == "end"


def test_closing_does_not_wait_for_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "GRACE", 0.1)
    go_on = threading.Event()
    prefetch = Prefetch(lambda item: go_on.wait(30), range(3), workers=2, count=3, size=9, cost=ONE)
    caller = Caller(prefetch)
    time.sleep(0.05)
    began = time.monotonic()
    prefetch.close()
    assert time.monotonic() - began < 5
    go_on.set()
    caller.wait()
    until(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")])


def test_closing_while_others_pull() -> None:
    """At any moment: a pool that has been shut down takes no work, and says so with an error of its own."""
    for delay in range(40):
        prefetch = Prefetch(abs, range(10_000), workers=2, count=10_000, size=10**6, cost=ONE)
        errors: list[BaseException] = []

        def pull(prefetch: Prefetch[int, int] = prefetch, errors: list[BaseException] = errors) -> None:
            try:
                for _ in prefetch:
                    pass
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=pull)
        thread.start()
        time.sleep(delay / 10_000)
        prefetch.close()
        thread.join(timeout=5)
        assert not thread.is_alive()
        assert errors == []


def test_ctrl_c_loses_nothing() -> None:
    go_on = threading.Event()
    with closing(Prefetch(lambda item: go_on.wait(5) and item, range(2), workers=1, count=2, size=9, cost=ONE)) as made:
        threading.Timer(0.1, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            next(made)
        go_on.set()
        assert list(made) == [0, 1]
