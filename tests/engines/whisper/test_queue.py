"""Windows that wait: their order, how far it looks ahead, what it blocks for."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest

from mlxbatch.engines.whisper.queue import WindowQueue
from mlxbatch.engines.whisper.windows import Window, window_from
from mlxbatch.types import Job, TranscribeOptions
from mlxbatch.vad.ahead import Heard
from tests.engines.whisper.parts import job, noise
from tests.jobs import RATE, Arriving, Given


def first(heard: Heard) -> Window | None:
    return window_from(heard.job, heard.speech)


def queue(jobs: Given, look_ahead: int = 4, skip: Callable[[Window], Window | None] = lambda _: None) -> WindowQueue:
    return WindowQueue(jobs, look_ahead, lambda window: mx.full((3,), window.job.id), first, skip)


def test_windows_go_in_plan_order_and_earlier_jobs_go_on_first() -> None:
    jobs = [job(number, noise(40 * RATE, number)) for number in (5, 2, 9)]
    waiting = queue(Given(jobs))
    waiting.fill(wait=True)
    taken = waiting.take(2)
    windows, features = [one.window for one in taken], waiting.features(taken)
    assert [window.order for window in windows] == [(2, 0), (5, 0)]
    assert [mel[0].item() for mel in features] == [2, 5]
    waiting.push(windows[1].following(3000, None))
    rest = waiting.take(9)
    assert [one.window.order for one in rest] == [(5, 1), (9, 0)]
    waiting.features(rest)
    assert waiting.exhausted
    assert [span.stage for span in waiting.spans] == ["features"] * 4


def test_it_looks_only_so_far_ahead() -> None:
    waiting = queue(Given([job(number, noise(160)) for number in range(9)]), look_ahead=4)
    waiting.fill(wait=True)
    assert len(waiting) == 4
    assert not waiting.draining
    waiting.take(3)
    waiting.fill(wait=False)
    assert len(waiting) == 4


def test_it_blocks_only_when_there_is_nothing_else_to_do() -> None:
    jobs = Arriving([job(number, noise(160)) for number in range(4)], here=1)
    waiting = queue(jobs)
    waiting.fill(wait=True)
    assert (len(waiting), jobs.blocked) == (1, 0)
    waiting.fill(wait=True)
    assert (len(waiting), jobs.blocked) == (1, 0)
    waiting.take(1)
    waiting.fill(wait=False)
    assert (len(waiting), jobs.blocked) == (0, 0)
    waiting.fill(wait=True)
    assert (len(waiting), jobs.blocked) == (1, 1)


def test_it_blocks_for_one_job_alone_though_that_is_silent() -> None:
    """What it has to say of the silent one may be what the next one waits for."""
    jobs = Arriving([job(number, np.zeros(160, np.float32)) for number in range(3)], here=0)
    skipped: list[Window] = []
    waiting = queue(jobs, skip=skipped.append)  # type: ignore[arg-type]
    waiting.fill(wait=True)
    assert (len(waiting), len(skipped), jobs.blocked) == (0, 1, 1)


class Listening:
    """Finds no speech in any job, by the time it is asked again (vad.ahead.SpeechAhead)."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []

    @property
    def pending(self) -> int:
        return len(self._jobs)

    def put(self, job: Job) -> None:
        self._jobs.append(job)

    def take(self, *, wait: bool) -> list[Heard]:
        found, self._jobs = self._jobs, []
        return [Heard(job, []) for job in found]


def test_it_blocks_for_none_while_there_is_something_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody speaks in the first one, and that may be what the second one waits for."""
    options = TranscribeOptions(vad=True)
    jobs = Arriving([job(number, noise(160), options) for number in range(2)], here=1)
    opened: list[Window | None] = []
    ahead = Listening()
    opening = lambda heard: opened.append(first(heard))  # noqa: E731
    waiting = WindowQueue(jobs, 4, lambda window: mx.zeros(1), opening, lambda _: None, 1, ahead)  # type: ignore[arg-type]
    waiting.fill(wait=False)  # the first is listened to, and known by the time that a slot is free
    ahead._jobs = [job(0, noise(160), options)]
    opened.clear()
    waiting.fill(wait=True)
    assert (opened, jobs.blocked) == ([None], 0)
    waiting.fill(wait=True)
    assert jobs.blocked == 1


def test_silence_is_skipped_up_to_the_first_sound() -> None:
    samples = np.concatenate([np.zeros(70 * RATE, np.float32), noise(RATE)])
    waiting = queue(Given([job(0, samples)]), skip=lambda window: window.following(3000, "en"))
    waiting.fill(wait=True)
    (taken,) = waiting.take(1)
    window = taken.window
    assert (window.index, window.start, window.language) == (2, 60, "en")


def test_features_begin_when_a_window_is_queued() -> None:
    begun: list[int] = []

    def features(window: Window) -> mx.array:
        begun.append(window.job.id)
        return mx.zeros((3,))

    waiting = WindowQueue(Given([job(n, noise(160)) for n in range(3)]), 4, features, first, lambda _: None)
    waiting.fill(wait=True)
    assert begun == [0, 1, 2]


def test_features_that_find_no_memory_are_made_when_the_window_is_taken() -> None:
    """A window that was pulled from its job is never lost: what fails is tried again where it can be answered for."""
    short = [True]

    def features(window: Window) -> mx.array:
        if short[0]:
            raise RuntimeError("[malloc] Unable to allocate 1 bytes")
        return mx.full((3,), window.job.id)

    waiting = WindowQueue(Given([job(7, noise(160))]), 4, features, first, lambda _: None)
    waiting.fill(wait=True)
    taken = waiting.take(1)
    assert [one.mel for one in taken] == [None]
    with pytest.raises(RuntimeError, match="Unable to allocate"):
        waiting.features(taken)
    short[0] = False
    assert [mel.tolist() for mel in waiting.features(taken)] == [[7, 7, 7]]
