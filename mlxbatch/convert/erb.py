"""The bands that DeepFilterNet hears in, and its filterbanks: computed, because its files do not hold them.

Equivalent rectangular bandwidths after Glasberg and Moore 1990, spread over the bins of a short-time transform as
libDF does (Rikorose/DeepFilterNet, libDF/src/lib.rs, erb_fb), in float32 as there: the widths are rounded numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_F32 = np.float32
_Q, _MINIMUM = 9.265, 24.7  # ear's quality factor, and the bandwidth at 0 Hz


def erb_widths(sample_rate: int, fft_size: int, bands: int, least: int) -> list[int]:
    """How many bins each band takes, `least` at the fewest; all of them are fft_size / 2 + 1."""
    low, high = _erb(0.0), _erb(sample_rate // 2)
    step = (high - low) / _F32(bands)
    bin_width = _F32(sample_rate) / _F32(fft_size)
    widths, before, over = [], 0, 0
    for band in range(1, bands + 1):
        edge = int(np.floor(_hertz(low + _F32(band) * step) / bin_width + _F32(0.5)))
        width = edge - before - over
        over = max(least - width, 0)
        widths.append(width + over)
        before = edge
    widths[-1] += fft_size // 2 + 1 - sum(widths)
    return widths


def filterbanks(widths: list[int]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """[bins, bands] that takes each band's mean, and [bands, bins] that gives each bin its band's value."""
    member = np.repeat(np.eye(len(widths), dtype=np.float32), widths, axis=0)
    return (member / np.array(widths)).astype(np.float32), np.ascontiguousarray(member.T)


def _erb(hertz: float) -> np.float32:
    return _F32(_F32(_Q) * np.log1p(_F32(hertz) / _F32(_MINIMUM * _Q)))


def _hertz(erb: np.float32) -> np.float32:
    return _F32(_F32(_MINIMUM * _Q) * (np.exp(erb / _F32(_Q)) - _F32(1)))
