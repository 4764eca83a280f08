"""Silero VAD's sizes and weights by name: what a whole model directory holds. No MLX."""

from __future__ import annotations

from dataclasses import dataclass

from mlxbatch.models.weights import Shape

HIDDEN = 128
# Output channels and stride of the four convolutions, each 3 frames wide.
CONVOLUTIONS = ((128, 1), (64, 2), (64, 2), (128, 1))
KERNEL = 3


@dataclass(frozen=True, slots=True)
class Sizes:
    """One network, in samples: a step of 32 ms, what it sees of the step before, and its short-time transform."""

    step: int
    context: int
    fft: int

    @property
    def hop(self) -> int:
        return self.fft // 2

    @property
    def bins(self) -> int:
        return self.fft // 2 + 1


NETWORKS = {16_000: Sizes(512, 64, 256), 8_000: Sizes(256, 32, 128)}
STEP_SECONDS = 0.032
# Memory that finding speech in one recording takes: one row took 32 MB at most, and eight rows together as much.
ROW_BYTES = 32 * 10**6


def expected_shapes(rate: int) -> dict[str, Shape]:
    """Every weight of the network for `rate` Hz: convolutions as [k, in, out], matrices as [in, out]."""
    sizes = NETWORKS[rate]
    shapes: dict[str, Shape] = {"stft.weight": (sizes.fft, 2 * sizes.bins)}
    channels = sizes.bins
    for layer, (out, _) in enumerate(CONVOLUTIONS):
        shapes |= {f"conv{layer}.weight": (KERNEL, channels, out), f"conv{layer}.bias": (out,)}
        channels = out
    shapes |= {"lstm.input": (channels, 4 * HIDDEN), "lstm.hidden": (HIDDEN, 4 * HIDDEN), "lstm.bias": (4 * HIDDEN,)}
    return shapes | {"out.weight": (HIDDEN, 1), "out.bias": (1,)}
