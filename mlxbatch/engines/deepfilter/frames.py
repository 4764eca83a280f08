"""Samples to spectra and back, frame by frame, as libDF does: half overlapping frames under Vorbis' window. No MLX.

Frame t covers the samples from (t - 1) * hop to (t + 1) * hop, with zeros where there are none; what is before the
first sample and after the last is not given back, so that the output has the input's samples to the one.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from mlxbatch.engines.deepfilter.sizes import Sizes

Samples = NDArray[np.float32]
Spectra = NDArray[np.complex64]

# Full scale is 1. The power of what is far beyond is more than float32 holds.
LOUDEST = 1e6


class NoSound(ValueError):
    """What a row was fed is no sound: the row is lost, and those beside it are not."""


class Analysis:
    """One row's samples -> its frames' spectra, scaled as libDF's are. Holds what no frame has taken yet."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._waiting: Samples = np.zeros(sizes.hop, np.float32)
        self.received = 0

    def feed(self, samples: Samples) -> None:
        """Samples [n]. NoSound where one of them is not finite, or beyond all measure."""
        sound = np.abs(samples) < LOUDEST  # NaN is not
        if not sound.all():
            place = int(np.argmin(sound))
            raise NoSound(f"sample {self.received + place} is {samples[place]}, which is no sound")
        self.received += len(samples)
        self._waiting = np.concatenate([self._waiting, samples])

    def end(self) -> None:
        """Add the silence after the last sample that its last frames reach into: `frames_of` frames come in all."""
        frames = frames_of(self.received, self._sizes)
        silence = frames * self._sizes.hop - self.received
        self._waiting = np.concatenate([self._waiting, np.zeros(silence, np.float32)])

    @property
    def frames(self) -> int:
        """How many could be taken."""
        return len(self._waiting) // self._sizes.hop - 1

    def take(self, count: int) -> Spectra:
        """The next frames' spectra [count, bins], count <= `frames`."""
        fft, hop = self._sizes.fft, self._sizes.hop
        hops = self._waiting[: (count + 1) * hop].reshape(-1, hop)
        seen = np.concatenate([hops[:-1], hops[1:]], axis=1) * window(fft)
        spectra = np.fft.rfft(seen, axis=-1).astype(np.complex64)
        self._waiting = self._waiting[count * hop :]
        return spectra * np.float32(2 * hop / fft**2)


class Synthesis:
    """One row's spectra -> its samples. Holds the half of the last frame that the next one overlaps."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._halves: Samples = np.zeros((0, sizes.hop), np.float32)  # none before the first frame, then one

    def give(self, spectra: Spectra) -> Samples:
        """Spectra [n, bins] -> the samples that are whole now: a hop for each frame but the row's first."""
        fft, hop = self._sizes.fft, self._sizes.hop
        sound = np.fft.irfft(spectra, fft, axis=-1).astype(np.float32) * (window(fft) * np.float32(fft**2 / (2 * hop)))
        before = self._halves
        self._halves = sound[-1:, hop:]
        overlapping = np.concatenate([before, sound[:-1, hop:]])
        return np.ravel(sound[len(sound) - len(overlapping) :, :hop] + overlapping)


def frames_of(samples: int, sizes: Sizes) -> int:
    """How many frames a row of so many samples has: those that cover it, and at least one of the silence after it."""
    return samples // sizes.hop + 2


@cache
def window(fft: int) -> Samples:
    """Vorbis' power-complementary window: squares of half overlapping ones add up to 1."""
    inner = np.sin(np.pi * (np.arange(fft) + 0.5) / fft)
    return np.sin(0.5 * np.pi * inner**2).astype(np.float32)
