"""Samples to spectra and back."""

from __future__ import annotations

import numpy as np
import pytest

from mlxbatch.engines.deepfilter.frames import Analysis, NoSound, Synthesis, frames_of, window
from tests.engines.deepfilter.tiny import SIZES, noise


def test_squares_of_overlapping_windows_add_up_to_one() -> None:
    half = np.square(window(960).astype(np.float64)).reshape(2, 480)
    np.testing.assert_allclose(half.sum(0), 1, atol=1e-6)


def test_a_frame_is_the_windowed_transform_scaled() -> None:
    """Frame 3 covers the hops 2 and 3."""
    sound = noise(1_000)
    analysis = Analysis(SIZES)
    analysis.feed(sound)
    expected = np.fft.rfft(sound[64:128] * window(64)) / 64  # 2 hop / fft^2
    np.testing.assert_allclose(analysis.take(5)[3], expected, atol=1e-6)


def test_frames_are_there_when_their_samples_are() -> None:
    analysis = Analysis(SIZES)
    counts = []
    for _ in range(5):
        analysis.feed(noise(16))
        counts.append(analysis.frames)
    assert counts == [0, 1, 1, 2, 2]
    assert analysis.take(0).shape == (0, SIZES.bins)


@pytest.mark.parametrize(("samples", "frames"), [(0, 2), (1, 2), (31, 2), (32, 3), (64, 4)])
def test_the_last_frames_reach_beyond_the_end(samples: int, frames: int) -> None:
    analysis = Analysis(SIZES)
    analysis.feed(noise(samples))
    analysis.end()
    assert analysis.frames == frames == frames_of(samples, SIZES)


def test_the_first_frame_gives_no_samples() -> None:
    synthesis = Synthesis(SIZES)
    assert len(synthesis.give(np.ones((1, SIZES.bins), np.complex64))) == 0
    assert len(synthesis.give(np.ones((3, SIZES.bins), np.complex64))) == 96


def test_a_sample_that_is_none_is_named() -> None:
    analysis = Analysis(SIZES)
    analysis.feed(noise(100))
    with pytest.raises(NoSound, match="sample 103 is nan, which is no sound"):
        analysis.feed(np.array([0, 0, 0, np.nan], np.float32))
