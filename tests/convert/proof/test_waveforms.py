"""How far two waveforms are apart."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from mlxbatch.convert.proof.waveforms import log_spectral_distance, mixed, pink_noise, si_sdr

RATE = 16_000


def tone(hertz: float, seconds: float = 0.5) -> NDArray[np.float32]:
    return np.sin(2 * np.pi * hertz * np.arange(round(seconds * RATE)) / RATE).astype(np.float32)


def test_si_sdr_by_hand() -> None:
    """Noise that has nothing of the signal, at a tenth of its amplitude: 20 dB, however loud both are."""
    signal, noise = tone(400), tone(1200)
    assert si_sdr(signal, signal + 0.1 * noise) == pytest.approx(20.0, abs=0.01)
    assert si_sdr(signal, -3 * (signal + 0.1 * noise)) == pytest.approx(20.0, abs=0.01)
    assert si_sdr(signal, noise) < -60


def test_si_sdr_of_the_same_and_of_nothing() -> None:
    signal = tone(400)
    assert si_sdr(signal, 0.5 * signal) == math.inf
    assert si_sdr(signal, np.zeros_like(signal)) == -math.inf
    assert si_sdr(np.zeros_like(signal), signal) == -math.inf
    assert si_sdr(signal, signal[:-100]) == math.inf


def test_spectra_that_differ_by_loudness_are_so_many_decibels_apart() -> None:
    noise = pink_noise(RATE // 2, 1)
    assert log_spectral_distance(noise, noise) == pytest.approx(0.0, abs=1e-6)
    assert log_spectral_distance(noise, noise / 2) == pytest.approx(20 * math.log10(2), rel=0.02)


def test_the_same_said_slower_is_nearer_than_something_else() -> None:
    first = np.concatenate([tone(300, 0.2), tone(900, 0.2), tone(2000, 0.2)])
    slower = np.concatenate([tone(300, 0.3), tone(900, 0.2), tone(2000, 0.35)])
    other = np.concatenate([tone(2000, 0.3), tone(300, 0.2), tone(900, 0.35)])
    assert log_spectral_distance(first, slower) < 0.3 * log_spectral_distance(first, other)


def test_what_is_too_short_has_no_spectrum() -> None:
    assert log_spectral_distance(tone(300), tone(300)[:100]) == math.inf


def test_noise_is_so_much_below_the_speech() -> None:
    speech, noise = 0.1 * tone(400), pink_noise(RATE // 2, 3)
    added = mixed(speech, noise, 5.0) - speech
    assert 10 * math.log10(np.mean(speech**2) / np.mean(added**2)) == pytest.approx(5.0, abs=0.01)


def test_pink_noise_has_as_much_in_each_octave() -> None:
    power = np.abs(np.fft.rfft(pink_noise(10 * RATE, 1))) ** 2
    octaves = [float(power[10 * low : 20 * low].sum()) for low in (100, 400, 1600)]
    assert max(octaves) / min(octaves) < 1.3
    np.testing.assert_array_equal(pink_noise(100, 7), pink_noise(100, 7))
