"""Pieces of recordings on their way: all at once or one by one, put together in order, failed as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlxbatch.engines.mlx_audio.cuts import CONTEXT, Cuts
from mlxbatch.types import Job, JobFailed, Output, Segment, WindowStats
from tests.jobs import Given

RATE = 100


def job(number: int, seconds: float) -> Job:
    """Ever quieter: pieces are as long as they may be."""
    samples = np.linspace(2.0, 1.0, round(seconds * RATE), dtype=np.float32)
    return Job(number, f"item{number}", samples, seconds)


def cuts(jobs: Sequence[Job], *, context: bool = False) -> Cuts:
    return Cuts(Given(jobs), RATE, 10.0, context=context)


def heard(number: int, text: str = "x") -> Output:
    segments = (Segment(0.0, 1.0, text),)
    return Output(number, 0, segments, WindowStats(0.0, 1.0, 1, 0.1), last=False)


def test_pieces_are_jobs_of_their_own_with_the_samples_of_theirs() -> None:
    whole = job(4, 25.0)
    given = list(cuts([whole]))
    assert [one.id for one in given] == [0, 1, 2]
    assert np.array_equal(np.concatenate([one.samples for one in given]), whole.samples)
    assert [one.seconds for one in given] == [len(one.samples) / RATE for one in given]


def test_outputs_come_in_order_whatever_order_pieces_are_heard_in() -> None:
    pieces = cuts([job(4, 25.0)])
    list(pieces)
    assert pieces.take(heard(2)) == []
    first = pieces.take(heard(0))
    assert [(one.job_id, one.window, one.last) for one in first if isinstance(one, Output)] == [(4, 0, False)]
    rest = pieces.take(heard(1))
    assert [(one.window, one.last) for one in rest if isinstance(one, Output)] == [(1, False), (2, True)]


def test_with_context_the_next_piece_comes_when_the_one_before_was_heard() -> None:
    pieces = cuts([job(4, 25.0)], context=True)
    assert [one.id for one in pieces] == [0]
    pieces.take(heard(0, "what was said"))
    assert [one.id for one in pieces] == [1]
    cut = pieces.of(1)
    assert cut is not None
    assert cut.context == "what was said"


def test_context_is_the_end_of_a_long_text_from_a_word_s_beginning() -> None:
    pieces = cuts([job(4, 15.0)], context=True)
    next(pieces)
    pieces.take(heard(0, "first " + "word " * 100))
    next(pieces)
    cut = pieces.of(1)
    assert cut is not None
    assert cut.context.startswith("word word")
    assert CONTEXT - 5 <= len(cut.context) <= CONTEXT


def test_a_recording_fails_once_and_its_other_pieces_are_passed_over() -> None:
    pieces = cuts([job(4, 25.0), job(5, 1.0)])
    given = list(pieces)
    (failed,) = pieces.take(JobFailed(1, "broken"))
    assert isinstance(failed, JobFailed)
    assert failed.job_id == 4
    assert failed.cause.startswith("from ")
    assert pieces.of(0) is None
    assert pieces.take(heard(2)) == []
    assert len(given) == 4
    assert [one.job_id for one in pieces.take(heard(3))] == [5]


def test_a_recording_in_one_piece_fails_as_a_whole() -> None:
    pieces = cuts([job(4, 5.0)])
    list(pieces)
    assert pieces.take(JobFailed(0, "broken")) == [JobFailed(4, "broken")]


def test_no_piece_is_kept_once_its_recording_is_done() -> None:
    pieces = cuts([job(4, 25.0)], context=True)
    for number in range(3):
        next(pieces)
        pieces.take(heard(number))
    assert not pieces._cuts
    assert not pieces._open
