"""Whose turn it is: slots are taken in plan order, and who goes back into the queue says the same as ever."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from mlxbatch.engines.whisper.engine import WhisperEngine
from mlxbatch.engines.whisper.slots import Slots, Trial
from mlxbatch.types import Job, TranscribeOptions
from tests.engines.whisper.parts import GREEDY, job, noise, outputs_by_job
from tests.engines.whisper.test_engine import Short, attempts, run, spec, told
from tests.jobs import RATE, Given

PASS = replace(GREEDY, logprob_threshold=-99.0, compression_ratio_threshold=99.0)
# No text is sure enough: all temperatures are tried.
LADDER = TranscribeOptions(language="en", logprob_threshold=0.0, max_tokens=6)
STAMP_SAMPLES = 320
# How often the engine asks how many rows it may have before it decodes a step.
ASKED_A_STEP = 3


def end(number: int) -> int:
    """The last timestamp of recording `number`, by which its first window's trials are known."""
    return 60 + 3 * number


def recording(number: int, options: TranscribeOptions) -> Job:
    return job(number, noise(end(number) * STAMP_SAMPLES), options)


def begun_by(trials: Sequence[Trial], count: int) -> list[int]:
    """Which of the recordings 0 to `count` a trial is of, for all trials of their first windows."""
    numbers = {end(number): number for number in range(count)}
    return [numbers[trial.end] for trial in trials if trial.end in numbers]


# ---- plan order


@pytest.mark.parametrize("seed", [0, 1])
def test_slots_are_taken_in_plan_order_whatever_the_order_of_arrival(
    short: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    begun = attempts(monkeypatch)
    jobs = [recording(number, replace(PASS, max_tokens=4 + 3 * (number % 3))) for number in range(8)]
    random.Random(seed).shuffle(jobs)
    run(short, jobs, 4)
    assert begun_by(begun, 8) == list(range(8))


def test_who_goes_back_into_the_queue_comes_before_those_behind(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A doubtful window's next attempts do not wait for the end of the run, though some have been encoded by then."""
    begun = attempts(monkeypatch)
    run(short, [recording(number, replace(LADDER, temperatures=(0.0, 0.5))) for number in range(6)], 1)
    order = begun_by(begun, 6)
    first = [order.index(number) for number in range(6)]
    last = [len(order) - 1 - order[::-1].index(number) for number in range(6)]
    assert first == sorted(first)
    assert [order.count(number) for number in range(6)] == [3] * 6
    assert all(last[number] < first[number + 4] for number in range(2))


def test_a_recording_goes_on_before_later_ones_begin(short: Path) -> None:
    """Or the longest of all would be left for the end of the run, alone."""
    brief = replace(PASS, max_tokens=4)
    jobs = [job(0, noise(65 * RATE), brief), *(recording(number, brief) for number in range(1, 9))]
    events = run(short, jobs, 1)
    order = [event.job_id for event in events]
    assert order.count(0) >= 3
    assert len(order) - order[::-1].index(0) < order.index(8)


# ---- those that go back


def pair() -> list[Job]:
    return [recording(0, LADDER), recording(1, LADDER)]


@pytest.fixture(scope="module")
def alone(short: Path) -> dict[int, Any]:
    """What each of the pair gets with no neighbour, on the last of six temperatures."""
    with closing(WhisperEngine(spec(short, 1))) as engine:
        found = {one.id: outputs_by_job(list(engine.run(Given([one]), lambda live: 1)))[one.id] for one in pair()}
    assert {output.stats.attempts for outputs in found.values() for output in outputs} == {7}
    return {number: told(outputs) for number, outputs in found.items()}


def ladder_of(trials: Sequence[Trial], number: int) -> list[float]:
    """The temperatures of its first window's trials, each once however often it began anew."""
    own = [trial for trial in trials if trial.end == end(number)]
    assert all(len({trial.seed for trial in same}) == 1 for _, same in groupby(own, lambda trial: trial.temperature))
    return [temperature for temperature, _ in groupby(own, lambda trial: trial.temperature)]


def squeezing(every: int) -> Callable[[int], int]:
    """Room for two rows, and after each `every` times that two are live, for a whole step, for one."""
    seen: list[int] = []

    def admit(live: int) -> int:
        seen.append(live)
        return 1 if live == 2 and seen.count(2) % every < ASKED_A_STEP else 2

    return admit


@pytest.mark.parametrize("every", [8, 25])
def test_the_latest_goes_back_and_stands_where_it_was_on_the_ladder(
    short: Path, alone: dict[int, Any], monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    """On its first attempt, and in the midst of the ladder; the earlier one goes on undisturbed."""
    begun = attempts(monkeypatch)
    found = outputs_by_job(run(short, pair(), 2, squeezing(every)))
    assert {number: told(outputs) for number, outputs in found.items()} == alone
    order = begun_by(begun, 2)
    assert (order.count(0), order.count(1) > 7) == (7, True)
    for number in range(2):
        assert ladder_of(begun, number) == list(LADDER.temperatures)


@pytest.mark.parametrize("moment", [2, 20])
def test_after_out_of_memory_all_stand_where_they_were(
    short: Path, alone: dict[int, Any], monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    begun = attempts(monkeypatch)
    step = Short(Slots.step, lambda slots: 0, 1, [moment])
    monkeypatch.setattr(Slots, "step", lambda self: step(self))
    found = outputs_by_job(run(short, pair(), 2))
    assert step.refusals == 1
    assert {number: told(outputs) for number, outputs in found.items()} == alone
    assert len(begun_by(begun, 2)) >= 15
    for number in range(2):
        assert ladder_of(begun, number) == list(LADDER.temperatures)


def test_what_falls_down_the_ladder_says_the_same_in_any_company(short: Path, alone: dict[int, Any]) -> None:
    """Random keys are made of its content: neither its slot, nor who sits beside it, nor when, is in them."""
    first, second = pair()
    company = [recording(number, PASS if number % 2 else LADDER) for number in range(2, 6)]
    jobs = [replace(one, id=number) for number, one in enumerate([company[0], second, *company[1:], first])]
    found = outputs_by_job(run(short, jobs, 8))
    assert [told(found[5]), told(found[1])] == [alone[0], alone[1]]
