"""Silero VAD in MLX: samples in steps of 32 ms -> the probability that somebody speaks in each.

Silero Team 2024, "Silero VAD" v6 (github.com/snakers4/silero-vad): a short-time Fourier transform's magnitudes, four
convolutions over the step, one LSTM over the steps. The network sees the last 4 ms of the step before.
"""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx

from mlxbatch.vad.layout import CONVOLUTIONS, HIDDEN, KERNEL, NETWORKS


@dataclass(frozen=True, slots=True)
class State:
    """What the LSTM carries from step to step, [rows, HIDDEN] each."""

    hidden: mx.array
    cell: mx.array

    @staticmethod
    def zeros(rows: int) -> State:
        return State(mx.zeros((rows, HIDDEN)), mx.zeros((rows, HIDDEN)))


class SileroNetwork:
    """The network for one sample rate; `weights` by the names of `layout.expected_shapes`, evaluated."""

    def __init__(self, weights: dict[str, mx.array], rate: int) -> None:
        self._weights, self.sizes = weights, NETWORKS[rate]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._weights.values())

    def features(self, samples: mx.array) -> mx.array:
        """One row's samples [context + steps * step] -> the LSTM's input [steps, 4 * HIDDEN], gates summed ahead."""
        sizes = self.sizes
        steps = (samples.size - sizes.context) // sizes.step
        seen = mx.as_strided(samples, (steps, sizes.context + sizes.step), (sizes.step, 1))
        mirrored = seen[:, -2 : -sizes.context - 2 : -1]  # the transform's padding is as long as the context
        x = self._magnitudes(mx.concatenate([seen, mirrored], axis=1))
        for layer, (_, stride) in enumerate(CONVOLUTIONS):
            x = mx.maximum(self._convolve(x, layer, stride), 0)
        return x[:, 0] @ self._weights["lstm.input"] + self._weights["lstm.bias"]

    def _magnitudes(self, x: mx.array) -> mx.array:
        """[steps, n] -> [steps, frames, bins]."""
        sizes = self.sizes
        frames = (x.shape[1] - sizes.fft) // sizes.hop + 1
        x = mx.contiguous(x)
        x = mx.as_strided(x, (x.shape[0], frames, sizes.fft), (x.shape[1], sizes.hop, 1))
        both = x @ self._weights["stft.weight"]
        real, imaginary = both[..., : sizes.bins], both[..., sizes.bins :]
        return mx.sqrt(real.square() + imaginary.square())

    def _convolve(self, x: mx.array, layer: int, stride: int) -> mx.array:
        """Frames [steps, n, in] -> [steps, ceil(n / stride), out], zeros beyond both ends.

        A sum of matrix products: there are four frames at most, for which MLX's convolution on the CPU is slow.
        """
        weight = self._weights[f"conv{layer}.weight"]
        x = mx.pad(x, [(0, 0), (1, 1), (0, 0)])
        last = x.shape[1] - KERNEL + 1
        return sum((x[:, k : k + last : stride] @ weight[k] for k in range(KERNEL)), self._weights[f"conv{layer}.bias"])

    def recur(self, gates: mx.array, state: State) -> tuple[mx.array, State]:
        """The LSTM over `gates` [rows, steps, 4 * HIDDEN] -> its outputs [rows, steps, HIDDEN], and its last state."""
        hidden, cell, outputs = state.hidden, state.cell, []
        weight = self._weights["lstm.hidden"]
        for step in range(gates.shape[1]):
            i, f, g, o = mx.split(mx.addmm(gates[:, step], hidden, weight), 4, axis=1)
            cell = mx.sigmoid(f) * cell + mx.sigmoid(i) * mx.tanh(g)
            hidden = mx.sigmoid(o) * mx.tanh(cell)
            outputs.append(hidden)
        return mx.stack(outputs, axis=1), State(hidden, cell)

    def probabilities(self, outputs: mx.array) -> mx.array:
        """One row's LSTM outputs [steps, HIDDEN] -> [steps]."""
        return mx.sigmoid(mx.maximum(outputs, 0) @ self._weights["out.weight"] + self._weights["out.bias"])[:, 0]
