"""Outputs of a recording's jobs -> its transcript."""

from __future__ import annotations

import random

import numpy as np
import pytest

from mlxbatch.join import Join
from mlxbatch.types import Output, Recording, Segment, WindowStats

STATS = WindowStats(0.0, 30.0, 4, 0.1)


def recording(*channels: int | None) -> Recording:
    samples = np.zeros((len(channels), 16_000), np.float32)
    return Recording(samples, 16_000, channels, ("a warning",), truncated=True)


def output(
    job: int, window: int, *starts: float, last: bool = True, language: str | None = "en", length: float = 1.0
) -> Output:
    segments = tuple(Segment(start, start + length, f"{job}.{window}") for start in starts)
    return Output(job, window, segments, STATS, last, language)


def joined(channels: tuple[int | None, ...], *outputs: Output) -> Join:
    join = Join(recording(*channels))
    assert [join.take(one) for one in outputs] == [False] * (len(outputs) - 1) + [True]
    return join


def test_one_job_in_its_windows() -> None:
    made = joined((None,), output(7, 0, 0, 2, last=False), output(7, 1, 30)).transcript("whisper")
    assert [(segment.start, segment.text) for segment in made.segments] == [(0, "7.0"), (2, "7.0"), (30, "7.1")]
    assert (made.seconds, made.warnings, made.truncated) == (1.0, ("a warning",), True)
    assert (made.model, made.language, made.channels) == ("whisper", "en", (None,))


def test_channels_are_merged_by_time_and_marked() -> None:
    made = joined((0, 1), output(4, 0, 1, 2.5), output(3, 0, 0, 2, 3)).transcript("m")
    assert [(segment.start, segment.channel) for segment in made.segments] == [(0, 0), (1, 1), (2, 0), (2.5, 1), (3, 0)]
    assert made.channels == (0, 1)


def test_who_begins_at_the_same_time_comes_in_the_order_of_the_channels() -> None:
    made = joined((0, 1, 2), output(2, 0, 5), output(0, 0, 5), output(1, 0, 5)).transcript("m")
    assert [segment.channel for segment in made.segments] == [0, 1, 2]


@pytest.mark.parametrize("seed", range(5))
def test_the_order_in_which_windows_come_is_no_difference(seed: int) -> None:
    """Jobs run beside each other; within one, windows come in order."""
    tracks = [[output(job, n, 30 * n + job, last=n == 2) for n in range(3)] for job in range(3)]
    expected = joined((0, 1, 2), *[one for track in tracks for one in track]).transcript("m")
    order = [job for job in range(3) for _ in range(3)]
    random.Random(seed).shuffle(order)
    waiting = [iter(track) for track in tracks]
    assert joined((0, 1, 2), *[next(waiting[job]) for job in order]).transcript("m") == expected


def test_a_job_that_was_begun_anew_repeats_its_windows_or_comes_to_fewer() -> None:
    first = [output(0, n, 10 * n, last=False) for n in range(3)]
    join = joined((0, 1), *first, output(1, 0, 1), output(0, 0, 0, last=False), output(0, 1, 12))
    assert [segment.start for segment in join.transcript("m").segments] == [0, 1, 12]
    assert [[one.window for one in track] for track in join.outputs] == [[0, 1], [0]]


def test_a_silent_channel_is_no_obstacle() -> None:
    made = joined((0, 1), output(0, 0, language=None), output(1, 0, 0, language="de")).transcript("m")
    assert (len(made.segments), made.language) == (1, "de")


def test_the_language_is_the_one_that_was_spoken_longest() -> None:
    spanish = output(1, 0, 0, 5, language="es", length=2.0)
    assert joined((0, 1), output(0, 0, 0, language="en"), spanish).transcript("m").language == "es"
    assert joined((0, 1), output(0, 0, language="en"), output(1, 0, language="es")).transcript("m").language == "en"
    assert joined((None,), output(0, 0, language=None)).transcript("m").language is None
