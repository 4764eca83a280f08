"""Windows over a recording, and what their tokens say."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from mlxbatch.engines.whisper.windows import (
    FRAMES_PER_STAMP,
    WINDOW_STAMPS,
    Piece,
    Window,
    compression_ratio,
    is_silence,
    needs_retry,
    pieces,
    window_from,
)
from mlxbatch.types import TranscribeOptions
from tests.engines.whisper.parts import job, noise

S = 100  # the first timestamp: all below it is text


def said(*tokens: int) -> tuple[list[Piece], int]:
    return pieces(tokens, S, 1400)


# ---- pieces


def test_no_tokens() -> None:
    assert said() == ([], WINDOW_STAMPS)


def test_text_without_timestamps_is_the_whole_window() -> None:
    assert said(1, 2, 3) == ([Piece(0, 1400, [1, 2, 3])], WINDOW_STAMPS)


def test_a_text_that_opens_and_does_not_close_goes_to_the_audio_s_end() -> None:
    assert said(S + 7, 1, 2) == ([Piece(7, 1400, [1, 2])], WINDOW_STAMPS)


def test_a_single_timestamp_at_the_end_closes_the_window() -> None:
    assert said(S + 7, 1, 2, S + 90) == ([Piece(7, 90, [1, 2])], WINDOW_STAMPS)


def test_a_text_that_breaks_off_after_a_pair_is_left_for_the_next_window() -> None:
    assert said(S, 1, S + 90, S + 95, 2, 3) == ([Piece(0, 90, [1])], 90)


def test_the_end_of_text_right_after_a_pair() -> None:
    assert said(S, 1, S + 90, S + 90) == ([Piece(0, 90, [1])], 90)


def test_several_pairs_and_a_single_timestamp_at_the_end() -> None:
    found = said(S, 1, S + 50, S + 60, 2, S + 90, S + 90, 3, S + 200)
    assert found == ([Piece(0, 50, [1]), Piece(60, 90, [2]), Piece(90, 200, [3])], WINDOW_STAMPS)


def test_several_pairs_and_an_unfinished_text() -> None:
    found = said(S + 2, 1, S + 50, S + 60, 2, S + 90, S + 90, 3)
    assert found == ([Piece(2, 50, [1]), Piece(60, 90, [2])], 90)


@pytest.mark.parametrize("tokens", [(S,), (S + 30,)])
def test_a_lone_timestamp_says_nothing_and_ends_the_window(tokens: tuple[int, ...]) -> None:
    found, advance = said(*tokens)
    assert [piece.tokens for piece in found] == [[]]
    assert advance == WINDOW_STAMPS


@pytest.mark.parametrize("tokens", [(S, S), (S, S, S), (S + 1, S + 1, S + 2, S + 2)])
def test_timestamps_alone_still_lead_on(tokens: tuple[int, ...]) -> None:
    found, advance = said(*tokens)
    assert all(piece.tokens == [] for piece in found)
    assert advance >= 1


# ---- windows of a job


def whole(samples: NDArray[np.float32], at: int = 0, number: int = 0) -> Window:
    """The first window of a job of which all is heard."""
    window = window_from(job(number, samples), [(0, len(samples))], at)
    assert window is not None
    return window


@pytest.mark.parametrize(("count", "stamps"), [(1, 1), (160, 1), (320, 1), (321, 2), (1500, 5), (480_000, 1500)])
def test_the_last_timestamp_that_the_audio_allows(count: int, stamps: int) -> None:
    assert whole(noise(count)).end_stamp == stamps


def test_a_long_recording_is_covered_to_its_last_sample() -> None:
    samples = noise(95 * 16_000 + 1)
    window, covered = whole(samples), 0
    windows = [window]
    while (following := window.following(WINDOW_STAMPS * FRAMES_PER_STAMP, "en")) is not None:
        window = following
        windows.append(window)
    for window in windows:
        assert window.cut[0] == covered
        assert np.array_equal(window.samples, samples[covered : covered + 480_000])
        covered += len(window.samples)
    assert covered == len(samples)
    assert [window.index for window in windows] == [0, 1, 2, 3]
    assert [window.start for window in windows] == [0, 30, 60, 90]
    assert windows[-1].end == len(samples) / 16_000


def test_the_next_window_starts_where_it_is_told_and_knows_the_language() -> None:
    window = whole(noise(64_000)).following(123, "de")
    assert window is not None
    assert (window.start, window.end, window.language, window.order) == (1.23, 4.0, "de", (0, 1))


@pytest.mark.parametrize("count", [1, 160, 480_000])
def test_nothing_follows_the_last_sample(count: int) -> None:
    assert whole(noise(count)).following(3000, None) is None


def test_a_single_sample_more_is_a_window_more() -> None:
    following = whole(noise(480_001)).following(3000, None)
    assert following is not None
    assert len(following.samples) == 1


def test_only_zeros_are_silence() -> None:
    assert whole(np.zeros(1000, np.float32)).silent()
    assert not whole(np.full(1000, 1e-6, np.float32)).silent()


def test_without_samples_or_speech_there_is_no_window() -> None:
    assert window_from(job(0, noise(0)), [(0, 0)]) is None
    assert window_from(job(0, noise(16_000)), []) is None


def test_windows_hear_speech_alone_and_know_when_it_was() -> None:
    samples, speech = noise(100 * 16_000), [(16_000, 80_000), (88_000, 104_000), (1_120_000, 1_536_000)]
    first = window_from(job(0, samples), speech)
    assert first is not None
    assert np.array_equal(first.samples, samples[16_000:104_000])
    assert (first.start, first.end) == (1.0, 6.5)
    assert first.times(Piece(10, 200, [])) == (1.2, 5.0)
    assert first.times(Piece(200, 1500, [])) == (5.0, 6.5)
    # Its text broke off 4.75 s into what it heard: the next one goes on from there.
    again = first.following(475, "en")
    assert again is not None
    assert (again.start, again.end, again.index, again.language) == (5.75, 6.5, 1, "en")
    last = again.following(3000, "en")
    assert last is not None
    assert (last.start, last.end, last.following(3000, "en")) == (70.0, 96.0, None)


def test_seeds_are_made_of_content_and_temperature_alone() -> None:
    samples = noise(640_000)
    early, late = whole(samples, 160_000, number=3), whole(samples[160_000:], number=9)
    assert early.seed(0.4) == late.seed(0.4)
    assert early.seed(0.4) != early.seed(0.6)
    other = samples[160_000:].copy()
    other[5] += 1e-4
    assert whole(other, number=9).seed(0.4) != late.seed(0.4)
    assert 0 <= early.seed(1.0) < 2**48


# ---- the gates


def test_loops_compress() -> None:
    assert compression_ratio("no " * 100) > 2.4
    assert compression_ratio("The quick brown fox jumps over the lazy dog.") < 2.4
    assert compression_ratio("") == 0


def test_silence_is_no_speech_and_an_unsure_text() -> None:
    options = TranscribeOptions()
    assert is_silence(0.9, -1.5, options)
    assert not is_silence(0.9, -0.5, options)
    assert not is_silence(0.5, -1.5, options)


def test_a_loop_or_an_unlikely_text_is_tried_again() -> None:
    options = TranscribeOptions()
    assert needs_retry(2.5, -0.1, options)
    assert needs_retry(1.0, -1.1, options)
    assert not needs_retry(2.3, -0.9, options)
