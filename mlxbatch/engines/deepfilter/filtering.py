"""What the network found, applied: a gain for each band, and for the low bins a filter over frames. No MLX.

Deep filtering: Mack and Habets 2019, "Deep Filtering: Signal Extraction and Reconstruction Using Complex Time-Frequency
Filters", arXiv 1904.08369. In DeepFilterNet3 the filter takes the noisy bins, not those that have their gain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mlxbatch.engines.deepfilter.frames import Spectra
from mlxbatch.engines.deepfilter.sizes import Sizes


@dataclass(frozen=True, slots=True)
class Found:
    """Of n frames: `gains` [n, bands] between 0 and 1, `taps` [n, low, order], the earliest frame's first."""

    gains: NDArray[np.float32]
    taps: Spectra


class Filtering:
    """One row's spectra, filtered; holds those that a later frame's filter reaches back to."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._past: Spectra = np.zeros((sizes.taps_behind, sizes.bins), np.complex64)

    def feed(self, spectra: Spectra) -> None:
        self._past = np.concatenate([self._past, spectra])

    def apply(self, found: Found) -> Spectra:
        """The next frames [n, bins], of which `filter_ahead` more than n have been fed."""
        count, sizes = len(found.gains), self._sizes
        whole = self._past[: count + sizes.order - 1]
        own = whole[sizes.taps_behind :][:count]
        filtered = own * np.repeat(found.gains, sizes.widths, axis=1)
        around = np.lib.stride_tricks.sliding_window_view(whole[:, : sizes.low], sizes.order, axis=0)
        filtered[:, : sizes.low] = (around * found.taps).sum(axis=-1)
        self._past = self._past[count:]
        return filtered
