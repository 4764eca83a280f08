"""Pieces of recordings on their way: all at once or one by one, put together in order, failed as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mlxbatch.engines.mlx_audio.cuts import CONTEXT, Cuts, Opened
from mlxbatch.engines.mlx_audio.recordings import Recordings
from mlxbatch.types import Job, JobFailed, Output, Segment, TranscribeOptions, WindowStats
from tests.jobs import Given

RATE = 100


def job(number: int, seconds: float) -> Job:
    """Ever quieter: pieces are as long as they may be."""
    samples = np.linspace(2.0, 1.0, round(seconds * RATE), dtype=np.float32)
    return Job(number, f"item{number}", samples, seconds)


def cuts(jobs: Sequence[Job], *, context: bool = False) -> Cuts:
    return Cuts(Recordings(Given(jobs), RATE, 10.0, 1.0, None, 1), RATE, context=context)


def heard(number: int, text: str = "x") -> Output:
    segments = (Segment(0.0, 1.0, text),)
    return Output(number, 0, segments, WindowStats(0.0, 1.0, 1, 0.1), last=True)


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


class Spoken:
    """Recordings whose speech is known already."""

    def __init__(self, *opened: Opened) -> None:
        self._opened = iter(opened)

    def __next__(self) -> Opened:
        return next(self._opened)

    def ready(self) -> bool:
        return True


def spoken(*opened: Opened, context: bool = False) -> Cuts:
    return Cuts(Spoken(*opened), RATE, context=context)


def test_a_piece_of_speech_has_its_place_in_the_recording_and_silence_in_its_pauses() -> None:
    whole = job(4, 25.0)
    pieces = spoken(Opened(whole, [[(300, 500), (700, 900)], [(2000, 2500)]]))
    assert [one.seconds for one in pieces] == [6.0, 5.0]
    first, second = pieces.of(0), pieces.of(1)
    assert first is not None
    assert second is not None
    assert (first.begin, first.seconds, second.begin, second.seconds) == (3.0, 6.0, 20.0, 5.0)
    assert np.array_equal(first.samples[:200], whole.samples[300:500])
    assert not first.samples[200:400].any()
    assert np.array_equal(first.samples[400:], whole.samples[700:900])
    assert np.array_equal(second.samples, whole.samples[2000:2500])
    assert whole.samples.all(), "the recording itself is left as it is"
    assert not first.alone


def test_a_recording_without_speech_is_one_piece_with_nothing_to_hear() -> None:
    pieces = spoken(Opened(job(4, 25.0), []))
    (given,) = pieces
    assert (len(given.samples), given.seconds) == (0, 0.0)
    cut = pieces.of(0)
    assert cut is not None
    assert cut.silent()
    assert (cut.begin, cut.seconds, cut.alone) == (0.0, 25.0, True)
    (output,) = pieces.take(replace(heard(0), segments=()))
    assert isinstance(output, Output)
    assert (output.job_id, output.window, output.last) == (4, 0, True)


def test_digital_silence_where_speech_should_be_is_silent() -> None:
    pieces = spoken(Opened(replace(job(4, 9.0), samples=np.zeros(900, np.float32)), [[(0, 100), (300, 400)]]))
    list(pieces)
    cut = pieces.of(0)
    assert cut is not None
    assert cut.silent()


def test_after_short_pieces_of_speech_more_than_the_last_one_is_told() -> None:
    for vad, wanted in ((True, "Yes. No."), (False, "No.")):
        whole = replace(job(4, 9.0), options=TranscribeOptions(vad=vad))
        pieces = spoken(Opened(whole, [[(n, n + 50)] for n in (0, 200, 400)]), context=True)
        for number, text in enumerate(("Yes.", "No.")):
            next(pieces)
            pieces.take(heard(number, text))
        next(pieces)
        cut = pieces.of(2)
        assert cut is not None
        assert cut.context == wanted


def part(number: int, window: int, text: str, *, last: bool = False) -> Output:
    return replace(heard(number, text), window=window, last=last)


def told(events: Sequence[Output | JobFailed]) -> list[tuple[int, bool, str]]:
    """Windows of a recording, whether they are its last, and what they say."""
    found = [event for event in events if isinstance(event, Output)]
    return [(one.window, one.last, " ".join(segment.text for segment in one.segments)) for one in found]


def test_parts_of_the_piece_whose_turn_it_is_are_put_out_at_once() -> None:
    pieces = cuts([job(4, 15.0)])
    list(pieces)
    assert told(pieces.take(part(1, 0, "c"))) == []
    assert told(pieces.take(part(0, 0, "a"))) == [(0, False, "a")]
    assert told(pieces.take(part(0, 1, "b", last=True))) == [(1, False, "b"), (2, False, "c")]
    assert told(pieces.take(part(1, 1, "d", last=True))) == [(3, True, "d")]
    assert not pieces._open


def test_parts_that_come_once_more_are_put_out_once() -> None:
    pieces = cuts([job(4, 5.0)])
    list(pieces)
    assert told(pieces.take(part(0, 0, "a"))) == [(0, False, "a")]
    assert told(pieces.take(part(0, 1, "b"))) == [(1, False, "b")]
    for window, text in enumerate("ab"):
        assert pieces.take(part(0, window, text)) == []
    assert told(pieces.take(part(0, 1, "b", last=True))) == [(2, True, "")]


def test_the_next_piece_is_told_the_text_of_all_parts() -> None:
    pieces = cuts([job(4, 15.0)], context=True)
    next(pieces)
    pieces.take(part(0, 0, "one"))
    assert list(pieces) == []
    pieces.take(part(0, 1, "two", last=True))
    assert [one.id for one in pieces] == [1]
    cut = pieces.of(1)
    assert cut is not None
    assert cut.context == "one two"
