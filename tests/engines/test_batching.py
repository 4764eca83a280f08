"""The generic loop: halving on trouble, who shares a batch, looking ahead without waiting, and nothing kept."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.batching import Padding, run_batches
from mlxbatch.engines.fake import BYTES_PER_SECOND, FakeEngine
from mlxbatch.errors import OutOfMemory
from mlxbatch.types import Job, JobFailed, Output, WindowStats
from tests.jobs import RATE, Given, job


def fake(batch_size: int = 16, **extra: Any) -> FakeEngine:
    return FakeEngine(EngineSpec("fake", batch_size=batch_size, extra=extra))


def admit_all(live: int) -> int:
    return 1000


def keep() -> None:
    """Nothing to give back."""


class Recorder:
    """An `infer` that keeps the lengths it was given, and has room for `room` samples of the padded batch."""

    def __init__(self, room: int | None = None) -> None:
        self.batches: list[list[int]] = []
        self.room = room

    def __call__(self, batch: list[Job]) -> list[Output]:
        lengths = [len(one.samples) for one in batch]
        self.batches.append(lengths)
        if self.room is not None and max(lengths) * len(lengths) > self.room:
            raise OutOfMemory("no room")
        return [Output(one.id, 0, (), WindowStats(0.0, one.seconds, 0, 0.0), last=True) for one in batch]


# ---- out of memory


def test_out_of_memory_halves_the_batch() -> None:
    engine = fake(16, memory=2 * BYTES_PER_SECOND)
    outputs = list(engine.run(Given(job(number) for number in range(16)), admit_all))
    assert engine.sizes == [16, 8, 4, 2, *[2] * 7], "and the size that fits is kept"
    assert sorted(output.job_id for output in outputs) == list(range(16))


def test_a_job_that_does_not_even_fit_alone_fails_alone() -> None:
    engine = fake(4, memory=2 * BYTES_PER_SECOND)
    outputs = list(engine.run(Given([job(0), job(1, 3 * RATE), job(2), job(3)]), admit_all))
    failed = [output for output in outputs if isinstance(output, JobFailed)]
    assert [one.job_id for one in failed] == [1]
    assert failed[0].cause == "needs more memory than there is, even alone: 192000 bytes asked of 128000"
    assert sorted(output.job_id for output in outputs if isinstance(output, Output)) == [0, 2, 3]


def test_other_errors_are_not_the_loop_s() -> None:
    with pytest.raises(ArithmeticError):
        list(fake(raises_on=RATE).run(Given([job(0)]), admit_all))


# ---- who shares a batch


def batches(lengths: list[int], padding: Padding, size: int = 4, look_ahead: int = 4) -> list[list[int]]:
    recorder = Recorder()
    jobs = Given(job(number, length) for number, length in enumerate(lengths))
    list(run_batches(jobs, admit_all, recorder, keep, size=size, padding=padding, look_ahead=look_ahead))
    return recorder.batches


def test_exact_takes_only_rows_of_one_length() -> None:
    found = batches([3, 1, 2, 3, 2, 3, 3, 3, 1], Padding.EXACT)
    assert found == [[3, 3, 3, 3], [3], [2, 2], [1, 1]]


@pytest.mark.parametrize("padding", [Padding.MASKED, Padding.FIXED])
def test_others_take_near_lengths_longest_first(padding: Padding) -> None:
    assert batches([1, 9, 2, 8, 3, 7], padding) == [[9, 8, 7, 3], [2, 1]]


def test_sorting_stays_within_the_look_ahead() -> None:
    assert batches([1, 2, 9, 8], Padding.MASKED, size=2, look_ahead=1) == [[2, 1], [9, 8]]


# ---- looking ahead


def test_a_slow_source_is_not_waited_for() -> None:
    """What is ready shares a batch; with nothing waiting, one job is waited for and goes without company."""
    pulled: list[int] = []
    there = 3  # jobs whose recordings are decoded when the loop looks

    def source() -> Iterator[Job]:
        for number in range(6):
            pulled.append(number)
            yield job(number)

    recorder = Recorder()
    jobs = Given(source(), ready=lambda: len(pulled) < there)
    outputs = run_batches(jobs, admit_all, recorder, keep, size=8, padding=Padding.FIXED)
    next(outputs)
    assert pulled == [0, 1, 2]
    assert recorder.batches == [[RATE] * 3]
    list(outputs)
    assert recorder.batches == [[RATE] * 3, [RATE], [RATE], [RATE]]


def test_no_more_is_taken_than_looked_ahead() -> None:
    pulled: list[int] = []

    def source() -> Iterator[Job]:
        for number in range(50):
            pulled.append(number)
            yield job(number, 1)

    outputs = run_batches(Given(source()), admit_all, Recorder(), keep, size=2, padding=Padding.FIXED, look_ahead=3)
    next(outputs)
    assert len(pulled) == 6


@given(st.lists(st.integers(0, 5), max_size=9), st.integers(1, 4))
def test_admit_is_respected(answers: list[int], size: int) -> None:
    recorder = Recorder()
    asked: list[int] = []

    def admit(live: int) -> int:
        assert live == 0
        asked.append(answers[len(asked)] if len(asked) < len(answers) else 3)
        return asked[-1]

    list(run_batches(Given(job(n, 1) for n in range(20)), admit, recorder, keep, size=size, padding=Padding.FIXED))
    assert sum(map(len, recorder.batches)) == 20
    for batch, allowed in zip(recorder.batches, asked, strict=True):
        assert len(batch) <= max(1, min(allowed, size)), "one row is always tried"


@given(
    st.lists(st.integers(0, 6), max_size=25),
    st.sampled_from(Padding),
    st.integers(1, 8),
    st.integers(1, 4),
    st.none() | st.integers(0, 20),
    st.lists(st.booleans(), max_size=60),
)
def test_every_job_comes_out_once(
    lengths: list[int], padding: Padding, size: int, look_ahead: int, room: int | None, ready: list[bool]
) -> None:
    recorder = Recorder(room)
    jobs = Given((job(number, length) for number, length in enumerate(lengths)), lambda: ready.pop() if ready else True)
    outputs = list(run_batches(jobs, admit_all, recorder, keep, size=size, padding=padding, look_ahead=look_ahead))
    assert Counter(output.job_id for output in outputs) == dict.fromkeys(range(len(lengths)), 1)
    failed = {output.job_id for output in outputs if isinstance(output, JobFailed)}
    assert failed == {n for n, length in enumerate(lengths) if room is not None and length > room}
    assert all(len(batch) <= size for batch in recorder.batches)
    if padding is Padding.EXACT:
        assert all(len(set(batch)) == 1 for batch in recorder.batches)


# ---- memory


def test_samples_of_finished_jobs_are_let_go() -> None:
    """While the next job is awaited, which may take long, nothing of the last batch is held."""
    samples: list[weakref.ref[Any]] = []

    def source() -> Iterator[Job]:
        for number in range(4):
            one = job(number)
            samples.append(weakref.ref(one.samples))
            yield one
            del one
            if number % 2:
                assert not any(one() is not None for one in samples), "the last batch is still in memory"

    outputs = list(
        run_batches(Given(source()), admit_all, Recorder(), keep, size=2, padding=Padding.FIXED, look_ahead=1)
    )
    assert len(outputs) == 4
