"""Silero VAD in MLX: samples in steps of 32 ms -> the probability that somebody speaks in each.

Silero Team 2024, "Silero VAD" v6 (github.com/snakers4/silero-vad): a short-time Fourier transform's magnitudes, four
convolutions over the step, one LSTM over the steps. The network sees the last 4 ms of the step before.

Arrays come and go as NumPy's, and every operation names its stream: MLX's default device, which `mx.stream` would set,
is that of all threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlxbatch.vad.layout import CONVOLUTIONS, HIDDEN, KERNEL, NETWORKS

Array = NDArray[np.float32]
Stream: TypeAlias = mx.Stream | mx.Device


@dataclass(frozen=True, slots=True)
class State:
    """What the LSTM carries from step to step, [rows, HIDDEN] each."""

    hidden: Array
    cell: Array

    @staticmethod
    def zeros(rows: int) -> State:
        return State(np.zeros((rows, HIDDEN), np.float32), np.zeros((rows, HIDDEN), np.float32))


class SileroNetwork:
    """The network for one sample rate; `weights` by the names of `layout.expected_shapes`."""

    def __init__(self, weights: Mapping[str, Array], rate: int) -> None:
        self.sizes = NETWORKS[rate]
        self._out = weights["out.weight"][:, 0], weights["out.bias"][0]
        kernels = [f"conv{n}.weight" for n in range(len(CONVOLUTIONS))]
        self._kernels = [[mx.array(part) for part in weights[name]] for name in kernels]
        self._weights = {name: mx.array(value) for name, value in weights.items() if name not in kernels}
        mx.eval(self._weights, self._kernels)

    @property
    def nbytes(self) -> int:
        kernels = [part for parts in self._kernels for part in parts]
        return sum(int(array.nbytes) for array in [*kernels, *self._weights.values()])

    def gates(self, samples: Array, stream: Stream) -> Array:
        """One row's samples [context + steps * step] -> the LSTM's gates [steps, 4 * HIDDEN], as far as it is known."""
        if len(samples) == self.sizes.context:
            return np.zeros((0, 4 * HIDDEN), np.float32)
        both = mx.matmul(mx.array(self._frames(samples)), self._weights["stft.weight"], stream=stream)
        real, imaginary = mx.split(both, [self.sizes.bins], axis=-1, stream=stream)
        power = mx.add(mx.square(real, stream=stream), mx.square(imaginary, stream=stream), stream=stream)
        x = mx.sqrt(power, stream=stream)
        for layer in range(len(CONVOLUTIONS)):
            x = self._convolve(x, layer, stream)
        last = mx.squeeze(x, 1, stream=stream)
        return np.array(mx.addmm(self._weights["lstm.bias"], last, self._weights["lstm.input"], stream=stream))

    def _frames(self, samples: Array) -> Array:
        """What the transform sees, [steps, 4, fft]: each step with its context before and its end mirrored behind."""
        sizes = self.sizes
        seen = np.lib.stride_tricks.sliding_window_view(samples, sizes.context + sizes.step)[:: sizes.step]
        mirrored = np.concatenate([seen, seen[:, -2 : -sizes.context - 2 : -1]], axis=1)
        frames = np.lib.stride_tricks.sliding_window_view(mirrored, sizes.fft, axis=1)[:, :: sizes.hop]
        return np.ascontiguousarray(frames)

    def _convolve(self, x: mx.array, layer: int, stream: Stream) -> mx.array:
        """Frames [steps, n, in] -> rectified [steps, ceil(n / stride), out], with zeros beyond both ends.

        A sum of matrix products: there are four frames at most, for which a convolution is slow on the CPU.
        """
        padded = mx.pad(x, [(0, 0), (1, 1), (0, 0)], stream=stream)
        found = self._weights[f"conv{layer}.bias"]
        for k, kernel in enumerate(self._kernels[layer]):
            places = mx.array(np.arange(k, padded.shape[1] - KERNEL + 1 + k, CONVOLUTIONS[layer][1]))
            product = mx.matmul(mx.take(padded, places, axis=1, stream=stream), kernel, stream=stream)
            found = mx.add(found, product, stream=stream)
        return mx.maximum(found, 0, stream=stream)

    def recur(self, gates: Array, state: State, stream: Stream) -> tuple[Array, State]:
        """The LSTM over `gates` [steps, rows, 4 * HIDDEN] -> its outputs [steps, rows, HIDDEN], and its last state."""
        hidden, cell, outputs = mx.array(state.hidden[None]), mx.array(state.cell[None]), []
        for known in mx.split(mx.array(gates), len(gates), axis=0, stream=stream):
            hidden, cell = self._step(known, hidden, cell, stream)
            outputs.append(hidden)
        found = mx.concatenate(outputs, axis=0, stream=stream)
        mx.eval(found, cell)
        everything = np.array(found)
        return everything, State(everything[-1], np.array(cell)[0])

    def _step(self, known: mx.array, hidden: mx.array, cell: mx.array, stream: Stream) -> tuple[mx.array, mx.array]:
        both = mx.addmm(known, hidden, self._weights["lstm.hidden"], stream=stream)
        i, f, g, o = mx.split(both, 4, axis=-1, stream=stream)
        kept = mx.multiply(mx.sigmoid(f, stream=stream), cell, stream=stream)
        added = mx.multiply(mx.sigmoid(i, stream=stream), mx.tanh(g, stream=stream), stream=stream)
        cell = mx.add(kept, added, stream=stream)
        return mx.multiply(mx.sigmoid(o, stream=stream), mx.tanh(cell, stream=stream), stream=stream), cell

    def probabilities(self, outputs: Array) -> Array:
        """One row's LSTM outputs [steps, HIDDEN] -> [steps]."""
        weight, bias = self._out
        scores = np.maximum(outputs, 0) @ weight + bias
        return np.asarray(1 / (1 + np.exp(-scores)), np.float32)
