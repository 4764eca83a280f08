"""What the network sees."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from mlxbatch.engines.deepfilter.features import Features, Normalization, nothing
from mlxbatch.engines.deepfilter.frames import Analysis, Spectra
from mlxbatch.engines.deepfilter.sizes import Sizes
from tests.engines.deepfilter.tiny import CONFIG, SIZES, noise


def spectra(frames: int) -> Spectra:
    analysis = Analysis(SIZES)
    analysis.feed(noise(frames * SIZES.hop))
    return analysis.take(frames)


def test_features_are_less_and_over_their_running_means() -> None:
    """Written as libDF's loops are."""
    seen = spectra(20)
    found = Normalization(SIZES).features(seen)
    means = np.linspace(-60, -90, SIZES.bands)
    edges = np.cumsum((0, *SIZES.widths))
    for frame, spectrum in enumerate(seen.astype(np.complex128)):
        power = np.abs(spectrum) ** 2
        levels = [10 * np.log10(power[a:b].mean() + 1e-10) for a, b in pairwise(edges)]
        means = 0.99 * means + 0.01 * np.array(levels)
        np.testing.assert_allclose(found.levels[frame], (levels - means) / 40, atol=1e-5)
    first = seen[0, : SIZES.low] / np.sqrt(0.99 * np.linspace(1e-3, 1e-4, SIZES.low) + 0.01 * np.abs(seen[0, :8]))
    np.testing.assert_allclose(found.bins[0], np.stack([first.real, first.imag], axis=-1), rtol=1e-4, atol=1e-6)


def test_means_are_carried() -> None:
    seen, parts = spectra(50), Normalization(SIZES)
    together = nothing(0, SIZES)
    for part in np.split(seen, [1, 7, 7, 30]):
        together = together.then(parts.features(part))
    once: Features = Normalization(SIZES).features(seen)
    np.testing.assert_array_equal(together.levels, once.levels)
    np.testing.assert_array_equal(together.bins, once.bins)


def test_features_are_numbers_after_minutes_of_digital_silence() -> None:
    """0.99^10000 of a bin's mean is less than float32 has normal numbers for; 0 / 0 would stay in the network."""
    normalization = Normalization(SIZES)
    silent = normalization.features(np.zeros((12_000, SIZES.bins), np.complex64))
    after = normalization.features(spectra(5))
    for features in (silent, after):
        assert np.isfinite(features.levels).all()
        assert np.isfinite(features.bins).all()


def test_means_keep_what_training_kept() -> None:
    """At 48 kHz and a hop of 10 ms: 0.99, which is exp(-0.01) rounded."""
    sizes = Sizes.of(CONFIG | {"sample_rate": 48_000, "fft_size": 960, "hop_size": 480, "erb_widths": [60] * 7 + [61]})
    silent = Normalization(sizes).features(np.zeros((1, 481), np.complex64))
    np.testing.assert_allclose(silent.levels[0, 0], (-100 - (0.99 * -60 + 0.01 * -100)) / 40, rtol=1e-5)
