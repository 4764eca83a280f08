"""Whose voice is in which channel: dead lines, crosstalk, copies, and calls that are none of these."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from mlxbatch.tracks import voices

RATE = 16_000
Samples = NDArray[np.float32]
SAME = ["the 2 channels have the same sound: it was heard once, and nobody can be told apart"]


def noise(seed: int, level: float, seconds: float = 4.0) -> Samples:
    return (level * np.random.default_rng(seed).standard_normal(round(seconds * RATE))).astype(np.float32)


def talk(seed: int, level: float, *spans: tuple[float, float], seconds: float = 4.0) -> Samples:
    """Sound in some spans of seconds, and nothing between them."""
    samples = np.zeros(round(seconds * RATE), np.float32)
    for start, end in spans:
        part = slice(round(start * RATE), round(end * RATE))
        samples[part] = noise(seed, level, seconds)[part]
    return samples


AGENT = talk(1, 0.2, (0.0, 1.5), (2.5, 3.5))


def heard(*tracks: Samples) -> tuple[int, list[str], Samples]:
    samples = np.stack(tracks)
    kept, said = voices(samples, RATE)
    return kept, said, samples


def test_both_sides_of_a_call_are_heard_as_they_are() -> None:
    customer = talk(2, 0.1, (1.5, 2.5))
    assert heard(AGENT, customer)[:2] == (2, [])
    np.testing.assert_array_equal(heard(AGENT, customer)[2], [AGENT, customer])


def test_a_channel_of_digital_silence_needs_no_word() -> None:
    assert heard(AGENT, np.zeros_like(AGENT))[:2] == (2, [])


def test_the_noise_of_a_dead_line_is_silenced() -> None:
    kept, said, samples = heard(AGENT, noise(2, 0.0002))
    assert (kept, said) == (2, ["channel 1 has no voice of its own (60 dB below channel 0): taken as silent"])
    np.testing.assert_array_equal(samples, [AGENT, np.zeros_like(AGENT)])


@pytest.mark.parametrize("share", [0.05, -0.05, 0.01])
def test_crosstalk_is_silenced(share: float) -> None:
    kept, said, samples = heard(share * AGENT + noise(2, 0.0002), AGENT)
    assert kept == 2
    assert said[0].startswith("channel 0 has no voice of its own (")
    assert not samples[0].any()


def test_one_quiet_word_beside_loud_crosstalk_saves_a_channel() -> None:
    customer = 0.3 * AGENT + talk(2, 0.004, (1.8, 2.1))
    kept, said, samples = heard(AGENT, customer)
    assert (kept, said) == (2, [])
    np.testing.assert_array_equal(samples[1], customer)


def test_one_word_into_what_the_other_says_saves_it_too() -> None:
    assert heard(AGENT, 0.3 * AGENT + talk(2, 0.06, (0.5, 0.9)))[:2] == (2, [])


def test_a_quiet_voice_below_music_on_the_other_channel_is_a_voice() -> None:
    assert heard(noise(1, 0.3), talk(2, 0.003, (1.0, 3.0)))[:2] == (2, [])


def test_an_echo_has_a_delay_and_is_left_alone() -> None:
    assert heard(AGENT, 0.3 * np.roll(AGENT, 800))[:2] == (2, [])


@pytest.mark.parametrize("share", [1.0, -1.0, 0.5])
def test_one_voice_saved_as_stereo_is_heard_once(share: float) -> None:
    """Whatever the sign, and with what codecs and stereo microphones do to it."""
    kept, said, samples = heard(share * AGENT + talk(2, 0.01, (0.0, 1.5), (2.5, 3.5)), AGENT)
    assert (kept, said) == (1, SAME)
    loudest = AGENT if abs(share) <= 1.0 else share * AGENT
    assert np.corrcoef(samples[0], loudest)[0, 1] ** 2 > 0.99


def test_of_six_channels_the_dead_are_silenced_and_the_rest_keep_their_numbers() -> None:
    customer = talk(2, 0.1, (1.5, 2.5))
    silent = np.zeros_like(AGENT)
    kept, said, samples = heard(silent, noise(3, 0.0001), AGENT, silent, customer, silent)
    assert (kept, [line[:9] for line in said]) == (6, ["channel 1"])
    assert [bool(track.any()) for track in samples] == [False, False, True, False, True, False]


@pytest.mark.parametrize("samples", [np.zeros((2, 0)), np.zeros((2, 5)), np.ones((1, 5)), np.zeros((0, 5))])
def test_where_there_is_nothing_to_compare(samples: Samples) -> None:
    assert voices(samples.astype(np.float32), RATE) == (len(samples), [])


@pytest.mark.parametrize("length", [1, 2, 3199, 3200, 3201])
def test_short_recordings(length: int) -> None:
    assert heard(np.full(length, 0.5, np.float32), np.full(length, 0.5, np.float32))[:2] == (1, SAME)
