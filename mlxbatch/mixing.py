"""What becomes of a block's channels, and the words for what is wrong with its samples. Arrays only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlxbatch.types import Channels

Samples = NDArray[np.float32]

# A mix this far below its loudest channel is a mix of channels that cancel each other.
CANCELLED_DB = -20.0


def taken_from(block: Samples, channels: Channels) -> Samples:
    """The tracks of a block [n, channels], shape [n, tracks].

    A mean is summed in float64, since garbage near the top of float32 overflows.
    """
    if channels == "mix" and block.shape[1] > 1:
        mixed: Samples = block.mean(axis=1, dtype=np.float64, keepdims=True).astype(np.float32)
        return mixed
    return np.ascontiguousarray(block[:, channels, None]) if isinstance(channels, int) else block


def silence_non_finite(block: Samples) -> int:
    """Put 0 in place of what is no number, and say how often."""
    finite = np.isfinite(block)
    if finite.all():
        return 0
    block[~finite] = 0.0
    return int(block.size - np.count_nonzero(finite))


def mixing_loss(power: NDArray[np.float64], mix: float) -> float:
    """Level of the mono mix against the loudest channel, in dB; 0 for mono and for silence.

    `power` is the sum of squares of each channel, `mix` that of their mean.
    """
    loudest = float(power.max())
    if len(power) == 1 or loudest == 0.0:
        return 0.0
    return 10.0 * float(np.log10(max(mix / loudest, 1e-20)))


def cancelled(channels: int, loudest: int, loss: float) -> str:
    """A warning where channels cancel each other, and the loudest is taken instead."""
    return (
        f"the {channels} channels cancel each other when mixed (the mix is {-loss:.0f} dB below channel {loudest}, "
        f"opposite phase?): channel {loudest} alone was taken"
    )


def not_finite(count: int) -> str:
    """A warning of samples that are NaN or infinite."""
    return f"{count} samples that are not finite numbers were set to 0"


def beyond_full_scale(peak: float) -> str:
    """A warning of floats that go up to `peak`."""
    return f"samples up to {peak:.4g}, beyond full scale (1.0): scaled down by that factor"
