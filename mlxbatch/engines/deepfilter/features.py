"""Spectra -> what the network sees: the bands' levels and the low bins, each less, or over, its running mean. No MLX.

Schröter et al. 2022, "DeepFilterNet: A Low Complexity Speech Enhancement Framework for Full-Band Audio Based on Deep
Filtering", arXiv 2110.05588, section 2.3; the constants are libDF's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mlxbatch.engines.deepfilter.frames import Spectra
from mlxbatch.engines.deepfilter.sizes import Sizes

Array = NDArray[np.float32]

LEVELS = (-60.0, -90.0)  # dB, at which the lowest and the highest band's mean begin
MAGNITUDES = (0.001, 0.0001)  # the same of the bins
LEVEL_RANGE = 40.0  # dB to 1
FAINTEST = 1e-10  # power: -100 dB


@dataclass(frozen=True, slots=True)
class Features:
    """Of n frames: `levels` [n, bands] and `bins` [n, low, 2], real and imaginary parts."""

    levels: Array
    bins: Array

    def __len__(self) -> int:
        return len(self.levels)

    def then(self, later: Features) -> Features:
        return Features(np.concatenate([self.levels, later.levels]), np.concatenate([self.bins, later.bins]))

    def __getitem__(self, part: slice) -> Features:
        return Features(self.levels[part], self.bins[part])


def nothing(count: int, sizes: Sizes) -> Features:
    """What the network sees beyond a row's last frame."""
    return Features(np.zeros((count, sizes.bands), np.float32), np.zeros((count, sizes.low, 2), np.float32))


class Normalization:
    """One row's features; holds the running means."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._keep = np.float32(_keep(sizes))
        self._starts = np.cumsum((0, *sizes.widths[:-1]))
        self._widths = np.array(sizes.widths, np.float32)
        starts = [np.linspace(*LEVELS, sizes.bands), np.linspace(*MAGNITUDES, sizes.low)]
        self._means = np.concatenate(starts).astype(np.float32)

    def features(self, spectra: Spectra) -> Features:
        """Spectra [n, bins] of the next frames."""
        bands, low = self._sizes.bands, spectra[:, : self._sizes.low]
        power = np.square(spectra.real) + np.square(spectra.imag)
        levels = 10 * np.log10(np.add.reduceat(power, self._starts, axis=1) / self._widths + np.float32(FAINTEST))
        means = self._running(np.concatenate([levels, np.abs(low)], axis=1))
        scaled = (low / np.sqrt(means[:, bands:])).astype(np.complex64)
        return Features((levels - means[:, :bands]) / np.float32(LEVEL_RANGE), _parts(scaled))

    def _running(self, values: Array) -> Array:
        """Exponential means of values [n, bands + low], each with its own frame in it."""
        means = values * (1 - self._keep)
        for mean in means:
            self._means *= self._keep
            self._means += mean
            mean[:] = self._means
        return means


def _keep(sizes: Sizes) -> float:
    """How much of a mean is kept from frame to frame: a time constant of 1 s, rounded as the training's was."""
    exact, digits = math.exp(-sizes.hop / sizes.rate), 3
    while (rounded := round(exact, digits)) >= 1:
        digits += 1
    return rounded


def _parts(values: Spectra) -> Array:
    """Complex [n, low] -> [n, low, 2]."""
    return np.ascontiguousarray(values).view(np.float32).reshape(*values.shape, 2)
