"""Recordings on their way to be heard: what is blocked for, how far it looks ahead, in which order they come."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mlxbatch.engines.mlx_audio.recordings import Recordings
from mlxbatch.types import Job, TranscribeOptions
from mlxbatch.vad import ahead as ahead_module
from mlxbatch.vad.ahead import SpeechAhead
from mlxbatch.vad.detector import load
from mlxbatch.vad.speech import Interval
from tests.jobs import Arriving, Given
from tests.vad.tiny import write_tiny_silero

RATE = 16_000


def job(number: int, seconds: float, *, vad: bool = True) -> Job:
    samples = np.random.default_rng(number).standard_normal(round(seconds * RATE)).astype(np.float32)
    return Job(number, f"item{number}", samples, seconds, options=TranscribeOptions(vad=vad))


@pytest.fixture
def ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SpeechAhead]:
    """It hears speech in the first second, from 3 to 4 s and from 20 s to 21 s."""

    def speech(_: object, count: int, *__: object) -> list[Interval]:
        return [(a * RATE, b * RATE) for a, b in ((0, 1), (3, 4), (20, 21)) if b * RATE <= count]

    monkeypatch.setattr(ahead_module, "speech_intervals", speech)
    found = SpeechAhead(load(write_tiny_silero(tmp_path / "vad")), 10 * RATE)
    yield found
    found.close()


def recordings(jobs: Given, ahead: SpeechAhead | None, apart: float = 1.0, look_ahead: int = 4) -> Recordings:
    return Recordings(jobs, RATE, 10.0, apart, ahead, look_ahead)


def drained(found: Recordings) -> dict[int, list[list[tuple[float, float]]]]:
    """Each recording's pieces, in seconds."""
    pieces = {}
    while True:
        try:
            opened = next(found)
        except StopIteration:
            return pieces
        seconds = [[(a / RATE, b / RATE) for a, b in piece] for piece in opened.pieces]
        assert opened.job.id not in pieces
        pieces[opened.job.id] = seconds


@pytest.mark.parametrize(
    ("apart", "wanted"),
    [(1.0, [[(0, 1)], [(3, 4)], [(20, 21)]]), (5.0, [[(0, 1), (3, 4)], [(20, 21)]])],
)
def test_long_pauses_divide_pieces_and_shorter_ones_are_between_stretches(
    ahead: SpeechAhead, apart: float, wanted: list[list[tuple[int, int]]]
) -> None:
    found = drained(recordings(Given([job(0, 22.0), job(1, 0.5)]), ahead, apart))
    assert found == {0: wanted, 1: []}


def test_what_asks_for_all_is_heard_whole_beside_others(ahead: SpeechAhead) -> None:
    found = drained(recordings(Given([job(0, 4.0), job(1, 4.0, vad=False)]), ahead))
    assert found == {0: [[(0, 1)], [(3, 4)]], 1: [[(0.0, 4.0)]]}


def test_each_comes_once_however_many_there_are(ahead: SpeechAhead) -> None:
    assert sorted(drained(recordings(Given([job(n, n / 4) for n in range(30)]), ahead))) == list(range(30))


def test_it_looks_only_so_far_ahead(ahead: SpeechAhead) -> None:
    given = Arriving([job(number, 1.0) for number in range(9)], here=9)
    recordings(given, ahead, look_ahead=4).ready()
    assert given.here == 5


def test_it_blocks_for_one_alone(ahead: SpeechAhead) -> None:
    """A recording without speech keeps its place in the feed until it is told of: the next may not come before."""
    given = Arriving([job(0, 0.5), job(1, 0.5)], here=0)
    found = recordings(given, ahead)
    assert not found.ready()
    assert next(found).job.id == 0
    assert given.blocked == 1
    assert not found.ready()


def test_without_a_detector_a_job_is_taken_when_its_turn_comes() -> None:
    given = Arriving([job(number, 1.0) for number in range(3)], here=3)
    found = recordings(given, None)
    assert found.ready()
    assert next(found).pieces == [((0, RATE),)]
    assert given.here == 2


def test_at_the_end_it_is_ready_to_say_so(ahead: SpeechAhead) -> None:
    found = recordings(Given([job(0, 1.0)]), ahead)
    next(found)
    assert found.ready()
    with pytest.raises(StopIteration):
        next(found)
