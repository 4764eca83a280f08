"""Both kinds of host over the fake engine: what they give, what they survive, and what they leave behind."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from mlxbatch.engines.base import EngineSpec, Jobs
from mlxbatch.engines.fake import BYTES_PER_SECOND
from mlxbatch.errors import DeviceLost, ItemError, SetupError, UsageError
from mlxbatch.flight import PATIENCE
from mlxbatch.host import Changed, ChildHost, EngineHost, Kind, make_host
from mlxbatch.types import Allowance, Job, JobFailed, Output
from mlxbatch.worker import SLAB_SAMPLES, Beat, Event, Loaded, Needs, NoMoreJobs
from tests.jobs import RATE, Given, job

ROOT = Path(__file__).resolve().parents[1]
BAD = 777  # samples of the job that the engine does not stand
both = pytest.mark.parametrize("kind", ["thread", "child"])

Open = Callable[..., EngineHost]


@pytest.fixture
def opened() -> Iterator[Open]:
    """Hosts that are started, and closed in the end; then no thread and no child may be there any more."""
    before = set(threading.enumerate())
    made: list[EngineHost] = []

    def call(kind: Kind, batch_size: int = 4, **extra: Any) -> EngineHost:
        made.append(make_host(EngineSpec("fake", batch_size=batch_size, extra=extra), kind))
        made[-1].start()
        return made[-1]

    yield call
    for one in made:
        one.close()
    assert not multiprocessing.active_children()
    assert set(threading.enumerate()) <= before


def child_pid() -> int:
    (child,) = multiprocessing.active_children()
    assert child.pid is not None
    return child.pid


def run(host: EngineHost, jobs: Sequence[Job], rows: int = 4) -> list[Event]:
    host.load()
    return events_of(host, Given(jobs), rows)


def events_of(host: EngineHost, jobs: Jobs, rows: int = 4) -> list[Event]:
    """What comes out, without the beats and what became of the child."""
    return [happening for happening in host.run(jobs, Allowance(rows)) if isinstance(happening, Event)]


def outcome(events: Sequence[Event]) -> tuple[list[int], dict[int, str]]:
    """Ids of the jobs that are done, and the causes of those that failed; each job comes once."""
    done = [event.output.job_id for event in events if isinstance(event.output, Output)]
    failed = {event.output.job_id: event.output.cause for event in events if isinstance(event.output, JobFailed)}
    assert len({*done, *failed}) == len(events)
    return sorted(done), failed


# ---- what they give


@both
def test_all_jobs_are_done_once(opened: Open, kind: Kind) -> None:
    jobs = [job(number, RATE // 10 * number) for number in range(20)]
    events = run(opened(kind), jobs)
    assert outcome(events) == (list(range(20)), {})
    for event in events:
        assert isinstance(event.output, Output)
        number = event.output.job_id
        assert [one.text for one in event.output.segments] == (
            [f"{number / 10:.2f} seconds of sound"] if number else []
        )


@both
def test_samples_arrive_whole(opened: Open, kind: Kind) -> None:
    lengths = [0, 1, SLAB_SAMPLES, 5 * SLAB_SAMPLES // 2, SLAB_SAMPLES + 1, 0, RATE]
    jobs = [job(number, length) for number, length in enumerate(lengths)]
    texts = {event.output.job_id: event.output.segments for event in run(opened(kind, checksum=True), jobs)}
    for one in jobs:
        words = [segment.text.split()[-1] for segment in texts[one.id]]
        assert words == ([f"{zlib.crc32(one.samples.tobytes()):08x}"] if len(one.samples) else [])


@both
def test_no_jobs_are_no_events(opened: Open, kind: Kind) -> None:
    assert run(opened(kind), []) == []


@both
def test_every_reply_has_readings(opened: Open, kind: Kind) -> None:
    host = opened(kind, memory_limit=123)
    loaded = host.load()
    assert (loaded.weights, loaded.memory_limit, loaded.sample_rate) == (0, 123, RATE)
    assert loaded.readings.rss > 10**6
    events = events_of(host, Given([job(0), job(1)]), 1)
    assert [event.readings.peak for event in events] == [BYTES_PER_SECOND] * 2
    assert all(event.readings.rss > 10**6 for event in events)
    assert [[(span.stage, span.rows) for span in event.readings.spans] for event in events] == [[("infer", 1)]] * 2
    spans = [span for event in events for span in event.readings.spans]
    assert all(abs(span.end - time.monotonic()) < 30 for span in spans), "one clock for both processes"


@both
def test_needs(opened: Open, kind: Kind) -> None:
    host = opened(kind)
    host.load()
    assert host.needs([]) == Needs([], 0)
    assert host.needs([1.0, 0.0, 2.5]).sizes == [BYTES_PER_SECOND, 0, 5 * BYTES_PER_SECOND // 2]


@both
def test_rows_are_a_limit(opened: Open, kind: Kind) -> None:
    events = run(opened(kind, batch_size=8), [job(number) for number in range(6)], rows=2)
    spans = [span for event in events for span in event.readings.spans]
    assert max(span.rows for span in spans) <= 2


@both
def test_one_run_after_another(opened: Open, kind: Kind) -> None:
    host = opened(kind)
    run_one = [job(number) for number in range(3)]
    host.load()
    for _ in range(3):
        assert outcome(events_of(host, Given(run_one), 4)) == ([0, 1, 2], {})
        assert host.needs([1.0]).sizes == [BYTES_PER_SECOND]


def test_the_child_hears_of_the_end_while_it_works(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine may save windows up for a fuller call; it must not when no job follows."""
    host = opened("child", seconds_per_batch=0.2)
    assert isinstance(host, ChildHost)
    host.load()
    events: list[Event] = []
    heard: list[int] = []
    send = host._send

    def listen(message: object) -> None:
        if isinstance(message, NoMoreJobs):
            heard.append(len(events))
        send(message)

    monkeypatch.setattr(host, "_send", listen)
    for event in host.run(Given([job(0), job(1)]), Allowance(1)):
        events.append(event)
    assert (len(events), heard) == (2, [0])


# ---- what goes wrong in the engine


@both
def test_what_loading_raises(opened: Open, kind: Kind) -> None:
    host = opened(kind, no_such_setting=1)
    with pytest.raises(RuntimeError, match=r"the engine raised TypeError: .*no_such_setting"):
        host.load()


@both
def test_errors_of_ours_come_as_they_are(kind: Kind) -> None:
    host = make_host(EngineSpec("no such engine"), kind)
    try:
        host.start()
        with pytest.raises(UsageError, match="unknown engine"):
            host.load()
    finally:
        host.close()


def test_every_error_of_ours_can_cross(tmp_path: Path) -> None:
    error = pickle.loads(pickle.dumps(ItemError(tmp_path, "decode", "no sound")))
    assert (str(error), error.path, error.stage) == (f"{tmp_path}: decode: no sound", tmp_path, "decode")


@both
def test_a_job_that_does_not_fit_fails_alone(opened: Open, kind: Kind) -> None:
    events = run(opened(kind, memory=2 * BYTES_PER_SECOND), [job(0), job(1, 3 * RATE), job(2)])
    done, failed = outcome(events)
    assert (done, list(failed)) == ([0, 2], [1])
    assert failed[1].startswith("needs more memory than there is")


def test_an_engine_that_raises_on_one_job(opened: Open) -> None:
    jobs = [job(number, BAD if number == 3 else RATE) for number in range(8)]
    events = run(opened("child", raises_on=BAD), jobs)
    assert outcome(events) == ([0, 1, 2, 4, 5, 6, 7], {3: "ArithmeticError: the fake engine was told to raise"})


def test_on_a_thread_what_the_engine_raises_ends_the_run(opened: Open) -> None:
    with pytest.raises(RuntimeError, match="the engine raised ArithmeticError"):
        run(opened("thread", raises_on=BAD), [job(0, BAD)])


@both
def test_what_the_jobs_raise_ends_the_run(opened: Open, kind: Kind) -> None:
    def source() -> Iterator[Job]:
        yield job(0)
        raise ItemError(Path("a"), "decode", "broken")

    host = opened(kind)
    host.load()
    with pytest.raises(ItemError, match="broken"):
        events_of(host, Given(source()), 4)


# ---- children that die


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_only_the_job_that_kills_the_child_fails(opened: Open, number: signal.Signals) -> None:
    jobs = [job(n, BAD if n == 2 else RATE) for n in range(6)]
    done, failed = outcome(run(opened("child", dies_on=BAD, signal=int(number)), jobs))
    assert (done, list(failed)) == ([0, 1, 3, 4, 5], [2])
    assert f"killed by {number.name}, " in failed[2]
    assert "memory" in failed[2]


def test_a_single_deadly_job(opened: Open) -> None:
    host = opened("child", dies_on=BAD)
    done, failed = outcome(run(host, [job(0, BAD)]))
    assert (done, list(failed)) == ([], [0])
    with pytest.raises(DeviceLost):  # no third one was started for nothing
        host.needs([1.0])


@pytest.mark.parametrize("count", [1, 12])
def test_a_child_killed_from_outside_costs_no_job(opened: Open, count: int) -> None:
    host = opened("child", seconds_per_batch=0.15)
    host.load()
    pid = child_pid()
    threading.Timer(0.1, os.kill, (pid, signal.SIGKILL)).start()
    events = events_of(host, Given([job(number) for number in range(count)]), 4)
    assert outcome(events) == (list(range(count)), {})
    assert child_pid() != pid


def test_a_child_killed_while_it_has_nothing_to_do(opened: Open) -> None:
    host = opened("child")
    host.load()
    first = child_pid()

    def source() -> Iterator[Job]:
        yield job(0)
        os.kill(first, signal.SIGKILL)
        time.sleep(0.2)
        yield job(1, 5 * SLAB_SAMPLES // 2)

    assert outcome(events_of(host, Given(source()), 4)) == ([0, 1], {})


def test_a_child_killed_in_the_middle_of_a_transfer(opened: Open) -> None:
    """The parent waits for an answer about every piece: none comes, and it must not wait for ever."""
    host = opened("child", checksum=True)
    host.load()
    jobs = [job(number, 8 * SLAB_SAMPLES) for number in range(4)]
    threading.Timer(0.03, os.kill, (child_pid(), signal.SIGKILL)).start()
    events = events_of(host, Given(jobs), 4)
    assert outcome(events) == ([0, 1, 2, 3], {})


def test_a_job_that_the_child_has_no_room_for(opened: Open) -> None:
    """Its samples alone are more than any memory; the child says so before it ends."""
    endless = replace(job(1, 0), samples=np.broadcast_to(np.float32(0), 1 << 50))
    done, failed = outcome(run(opened("child"), [job(0), endless, job(2)]))
    assert (done, list(failed)) == ([0, 2], [1])
    assert "MemoryError" in failed[1]


def test_jobs_that_come_while_the_child_is_replaced(opened: Open) -> None:
    """They are neither lost nor taken for the new child's answer."""
    host = opened("child", dies_on=BAD, load_seconds=0.3)

    def source() -> Iterator[Job]:
        yield job(0, BAD)
        for number in range(1, 12):
            time.sleep(0.1)
            yield job(number)

    host.load()
    done, failed = outcome(events_of(host, Given(source()), 4))
    assert (done, list(failed)) == (list(range(1, 12)), [0])


def test_a_child_that_dies_while_it_loads(opened: Open) -> None:
    host = opened("child", load_seconds=30)
    threading.Timer(0.5, os.kill, (child_pid(), signal.SIGKILL)).start()
    with pytest.raises(DeviceLost, match="killed by SIGKILL"):
        host.load()
    with pytest.raises(DeviceLost, match="killed by SIGKILL"):  # and whoever asks it later does not wait for ever
        host.needs([1.0])


def test_dying_again_and_again_ends_the_run(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    host = opened("child", dies_on=BAD)
    host.load()
    starts: list[int] = []
    start = host.start
    monkeypatch.setattr(host, "start", lambda: (starts.append(1), start()))
    events: list[Event] = []
    with pytest.raises(DeviceLost, match=f"the engine died {PATIENCE + 1} times with nothing finished in between"):
        events += host.run(Given([job(number, BAD) for number in range(20)]), Allowance(4))
    assert len(starts) == PATIENCE
    assert not multiprocessing.active_children()


def test_a_child_that_dies_while_it_is_loaded_again_gets_another_one(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = opened("child", dies_on=BAD)
    host.load()
    load, killed = host.load, []

    def kill_once() -> Loaded:
        if not killed:
            killed.append(child_pid())
            os.kill(killed[0], signal.SIGKILL)
        return load()

    monkeypatch.setattr(host, "load", kill_once)
    done, failed = outcome(events_of(host, Given([job(0), job(1, BAD), job(2)]), 4))
    assert (done, list(failed), len(killed)) == ([0, 2], [1], 1)


def test_a_reply_that_cannot_be_read_is_a_death(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    host = opened("child", load_seconds=0.2)
    monkeypatch.setattr("multiprocessing.connection._ForkingPickler.loads", lambda data: 1 // 0)
    with pytest.raises(DeviceLost, match="said what cannot be read: ZeroDivisionError"):
        host.load()


def test_no_shared_memory_is_the_environment_s_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(**size: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mlxbatch.host.child.SharedMemory", none)
    host = make_host(EngineSpec("fake"), "child")
    with pytest.raises(SetupError, match=r"no shared memory for the engine's process: .*No space left"):
        host.start()
    host.close()


# ---- children that hang, and children that are renewed


def test_a_job_that_hangs_fails_and_the_others_are_done() -> None:
    host = ChildHost(EngineSpec("fake", batch_size=2, extra={"hangs_on": BAD}), stall_timeout=1.0)
    host.start()
    try:
        host.load()
        jobs = [job(number, BAD if number == 2 else RATE) for number in range(5)]
        happenings = list(host.run(Given(jobs), Allowance(2)))
    finally:
        host.close()
    done, failed = outcome([one for one in happenings if isinstance(one, Event)])
    assert (done, failed) == ([0, 1, 3, 4], {2: "the engine made no progress for 1 s"})
    changes = [one for one in happenings if isinstance(one, Changed)]
    assert {(one.what, one.cause) for one in changes} == {("stalled", "the engine made no progress for 1 s")}
    (event,) = [one for one in happenings if isinstance(one, Event) and isinstance(one.output, JobFailed)]
    assert event.output == JobFailed(2, "the engine made no progress for 1 s", deadly=True)


@pytest.mark.parametrize("samples", [RATE, 12 * SLAB_SAMPLES], ids=["at work", "in a transfer"])
def test_a_child_that_is_stopped_is_replaced(samples: int) -> None:
    """By SIGSTOP: it neither ends nor answers, in the middle of a batch or while samples cross."""
    host = ChildHost(EngineSpec("fake", batch_size=2, extra={"seconds_per_batch": 0.3}), stall_timeout=1.5)
    host.start()
    try:
        host.load()
        pid = child_pid()
        threading.Timer(0.1, os.kill, (pid, signal.SIGSTOP)).start()
        happenings = list(host.run(Given([job(number, samples) for number in range(4)]), Allowance(2)))
        assert child_pid() != pid
    finally:
        host.close()
    assert outcome([one for one in happenings if isinstance(one, Event)]) == ([0, 1, 2, 3], {})
    assert [one.what for one in happenings if isinstance(one, Changed)] == ["stalled"]


def test_one_that_does_not_come_on_while_it_loads() -> None:
    host = ChildHost(EngineSpec("fake", extra={"load_seconds": 60}), stall_timeout=1.5)
    host.start()
    try:
        with pytest.raises(DeviceLost, match=r"the engine made no progress for 1\.5 s"):
            host.load()
    finally:
        host.close()


def test_patience_is_not_worn_out_before_anybody_asks() -> None:
    """The runner reads all headers between `start` and `load`, and that may take longer than any patience."""
    host = ChildHost(EngineSpec("fake"), stall_timeout=1.0)
    host.start()
    try:
        time.sleep(3)
        host.load()
        time.sleep(2)
        assert host.needs([1.0]).sizes == [BYTES_PER_SECOND]
        time.sleep(2)
        happenings = list(host.run(Given([job(0)]), Allowance(1)))
    finally:
        host.close()
    assert outcome([one for one in happenings if isinstance(one, Event)]) == ([0], {})


def test_a_caller_that_takes_its_time_does_not_wear_it_out(opened: Open) -> None:
    """Ctrl-Z, or an output on a disk that hangs: what the child has said meanwhile is heard first."""
    host = ChildHost(EngineSpec("fake", extra={"seconds_per_batch": 1.5}), stall_timeout=3.0)
    host.start()
    happenings = []
    try:
        host.load()
        for happening in host.run(Given([job(0), job(1)]), Allowance(1)):
            happenings.append(happening)
            if len(happenings) == 1:
                time.sleep(6)
    finally:
        host.close()
    assert outcome([one for one in happenings if isinstance(one, Event)]) == ([0, 1], {})
    assert not [one for one in happenings if isinstance(one, Changed)]


def test_patience_is_for_work_and_not_for_waiting() -> None:
    """A child that has nothing to do has not stalled, however long no job comes."""
    host = ChildHost(EngineSpec("fake", extra={"seconds_per_batch": 0.6}), stall_timeout=1.0)
    host.start()

    def source() -> Iterator[Job]:
        yield job(0)
        time.sleep(2.5)
        yield from (job(number) for number in range(1, 5))

    try:
        host.load()
        happenings = list(host.run(Given(source()), Allowance(1)))
    finally:
        host.close()
    assert outcome([one for one in happenings if isinstance(one, Event)]) == ([0, 1, 2, 3, 4], {})
    assert not [one for one in happenings if isinstance(one, Changed)]


def test_a_renewed_child_takes_over_between_two_jobs(opened: Open) -> None:
    host = opened("child", seconds_per_batch=0.05)
    host.load()
    pids: list[int] = []
    happenings = []

    def source() -> Iterator[Job]:
        for number in range(24):
            time.sleep(0.05)
            yield job(number)

    for happening in host.run(Given(source()), Allowance(4)):
        happenings.append(happening)
        pids.append(child_pid())
        if len(happenings) == 6:
            host.renew()
    assert outcome([one for one in happenings if isinstance(one, Event)]) == (list(range(24)), {})
    assert [one.what for one in happenings if isinstance(one, Changed)] == ["renewed"]
    assert len(set(pids)) == 2


def test_a_renewal_that_is_asked_for_when_no_more_comes_ends_the_run(opened: Open) -> None:
    host = opened("child", seconds_per_batch=0.3)
    host.load()
    end = threading.Event()

    def source() -> Iterator[Job]:
        yield job(0)
        end.wait(10)

    happenings = []
    for happening in host.run(Given(source(), end.is_set), Allowance(1)):
        happenings.append(happening)
        if len(happenings) == 1:
            host.renew()
            end.set()
    assert outcome([one for one in happenings if isinstance(one, Event)]) == ([0], {})


def test_where_there_is_no_process_nothing_is_renewed(opened: Open) -> None:
    host = opened("thread")
    host.load()
    host.renew()
    assert outcome(events_of(host, Given([job(0), job(1)]), 1)) == ([0, 1], {})


@both
def test_an_allowance_holds_from_the_next_refill_on(opened: Open, kind: Kind) -> None:
    host = opened(kind, batch_size=8, seconds_per_batch=0.15)
    host.load()
    rows: list[int] = []
    for happening in host.run(Given([job(number) for number in range(40)]), Allowance(8)):
        if isinstance(happening, Event):
            rows += [span.rows for span in happening.readings.spans]
            if max(rows) > 2:
                host.allow(Allowance(2))
    assert max(rows) > 2, "before it heard of it"
    assert max(rows[-4:]) == 2


@both
def test_the_engine_beats_while_it_is_at_a_long_piece_of_work(opened: Open, kind: Kind) -> None:
    host = opened(kind, seconds_per_batch=2.2)
    host.load()
    beats = [one.readings for one in host.run(Given([job(0)]), Allowance(1)) if isinstance(one, Beat)]
    assert len(beats) >= 3
    assert {beat.live for beat in beats} == {1}
    assert all(beat.rss > 10**6 for beat in beats)


def test_a_process_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one, and one that is to replace another: it is the environment's fault, and nothing stays open."""
    host = ChildHost(EngineSpec("fake", extra={"dies_on": BAD}))
    host.start()
    try:
        host.load()
        popen = multiprocessing.get_context("spawn").Process._Popen

        def none(process: Any) -> Any:
            raise OSError(11, "Resource temporarily unavailable")

        monkeypatch.setattr(multiprocessing.context.SpawnProcess, "_Popen", staticmethod(none))
        with pytest.raises(SetupError, match=r"the engine's process cannot be started: .*temporarily unavailable"):
            list(host.run(Given([job(0, BAD)]), Allowance(1)))
        monkeypatch.setattr(multiprocessing.context.SpawnProcess, "_Popen", staticmethod(popen))
    finally:
        host.close()
    assert not multiprocessing.active_children()


# ---- the end


@both
def test_closed_in_the_middle(opened: Open, kind: Kind) -> None:
    host = opened(kind, seconds_per_batch=0.05)
    host.load()
    events = host.run(Given(job(number, 100) for number in range(1000)), Allowance(1))
    next(events)
    began = time.monotonic()
    events.close()
    host.close()
    host.close()
    assert time.monotonic() - began < 10
    assert not multiprocessing.active_children()
    assert not [thread for thread in threading.enumerate() if thread.name in ("engine", "feed", "receive")]


@both
def test_a_thread_that_waits_for_a_job_ends_when_the_jobs_do(
    opened: Open, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the runner does: first the jobs are closed, then the host."""
    for module in ("thread", "child"):
        monkeypatch.setattr(f"mlxbatch.host.{module}.GRACE", 30.0)
    host = opened(kind)
    host.load()
    end = threading.Event()

    def source() -> Iterator[Job]:
        yield job(0)
        end.wait(60)

    events = host.run(Given(source(), end.is_set), Allowance(1))
    next(events)
    end.set()
    began = time.monotonic()
    events.close()
    assert time.monotonic() - began < 10
    host.close()


@both
def test_closed_while_it_loads(opened: Open, kind: Kind) -> None:
    host = opened(kind, load_seconds=0.5)
    host.close()
    assert not multiprocessing.active_children()


@both
def test_closed_before_it_is_started(kind: Kind) -> None:
    make_host(EngineSpec("fake"), kind).close()


def test_ctrl_c_in_the_middle(opened: Open) -> None:
    host = opened("child", seconds_per_batch=20)
    host.load()
    threading.Timer(0.3, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        events_of(host, Given([job(0), job(1)]), 1)
    assert not multiprocessing.active_children()


def test_samples_of_finished_jobs_are_let_go(opened: Open) -> None:
    host = opened("child")
    host.load()
    samples: list[weakref.ref[Any]] = []
    go_on = threading.Event()

    def source() -> Iterator[Job]:
        for number in range(3):
            one = job(number)
            samples.append(weakref.ref(one.samples))
            yield one
            del one
            go_on.wait(5)
            go_on.clear()

    for _ in host.run(Given(source()), Allowance(4)):
        assert not any(one() is not None for one in samples)
        go_on.set()
    assert len(samples) == 3


# ---- nothing left behind, whoever is killed

SCRIPT = """
import sys
from mlxbatch.engines.base import EngineSpec
from mlxbatch.host import ChildHost
from mlxbatch.types import Allowance
from tests.jobs import Given, job

def main(how):
    slow = {"loading": {"load_seconds": 60}, "working": {"seconds_per_batch": 60}}.get(how, {})
    host = ChildHost(EngineSpec("fake", batch_size=2, extra={"dies_on": 777, **slow}))
    host.start()
    say(host)
    host.load()
    jobs = [job(n, 777 if how == "dying" and n == 1 else 16_000) for n in range(4)]
    if how == "working":
        print("ready", flush=True)
    for event in host.run(Given(jobs), Allowance(2)):
        say(host)
        if how == "early":
            break
    if how != "forgotten":
        host.close()

def say(host):
    print(host._slab.name, host._process.pid, flush=True)

if __name__ == "__main__":
    main(sys.argv[1])
"""


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(how: str) -> subprocess.Popen[str]:
        file = tmp_path / "script.py"
        file.write_text(SCRIPT)
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        started.append(
            subprocess.Popen(
                [sys.executable, file, how],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def gone(pid: int) -> bool:
    """A zombie has ended; whether someone collects it is not ours to say."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def shared(names: set[str]) -> set[str]:
    """Those blocks of shared memory that still have a name."""
    return {name for name in names if Path("/dev/shm", name.lstrip("/")).exists()}


@pytest.mark.parametrize("how", ["normal", "early", "dying", "forgotten"])
def test_nothing_is_left_after_an_end(script: Callable[[str], subprocess.Popen[str]], how: str) -> None:
    """Normal, closed early, with children that died, and by a program that never closes its host."""
    process = script(how)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    # In company with one other or with three, then alone, twice.
    assert len({pid for _, pid in lines}) in ((4, 5) if how == "dying" else (1,))
    assert all(gone(int(pid)) for _, pid in lines)
    assert not shared({name for name, _ in lines})


@pytest.mark.parametrize("how", ["loading", "working"])
def test_the_child_ends_with_its_parent(script: Callable[[str], subprocess.Popen[str]], how: str) -> None:
    process = script(how)
    assert process.stdout is not None
    name, pid = process.stdout.readline().split()
    if how == "working":
        assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    assert not gone(int(pid))
    process.kill()
    end = time.monotonic() + 2
    while not gone(int(pid)):
        assert time.monotonic() < end, "the child lives on"
        time.sleep(0.02)
    # Ends only when all that hold it have, Python's tracker of shared memory included.
    _, err = process.communicate(timeout=10)
    assert not shared({name})
    if how == "working":
        assert err == ""


def test_the_slab_has_no_name_once_the_engine_is_loaded(opened: Open) -> None:
    host = opened("child")
    host.load()
    assert isinstance(host, ChildHost)
    assert not shared({host._slab.name})
