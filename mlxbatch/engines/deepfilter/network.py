"""The network: features of some frames, and what is carried from frames before -> gains and filters.

Arrays are [rows, frames, frequencies, channels]. An encoder sees the bands and the low bins; two decoders find the
bands' gains and the low bins' filters. Convolutions reach back in time only, and so does recurrence: what they need of
the past is the `State`, and frames may come in any portions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from numpy.typing import NDArray

from mlxbatch.engines.deepfilter import folding
from mlxbatch.engines.deepfilter.activations import sigmoid, tanh
from mlxbatch.engines.deepfilter.folding import Linear, Weights
from mlxbatch.engines.deepfilter.recurrence import Recurrence
from mlxbatch.engines.deepfilter.sizes import Sizes

Array = NDArray[np.float32]

# Frames before its own that a convolution over features sees: its kernel, in sizes.FORM, is 3 long.
LOOK_BACK = 2


@dataclass(frozen=True, slots=True)
class State:
    """What rows carry from frame to frame, rows first: what convolutions look back on, and recurrent layers' states."""

    levels: Array
    bins: Array
    pathway: Array
    encoder: Array
    gains: Array
    filters: Array

    @classmethod
    def join(cls, states: Sequence[Self]) -> Self:
        """Of several batches of rows, that of all of them."""
        return cls(*(np.concatenate([getattr(state, f.name) for state in states]) for f in fields(cls)))

    def rows(self) -> list[State]:
        """That of each row alone."""
        count = len(self.levels)
        return [State(*(getattr(self, f.name)[row : row + 1] for f in fields(self))) for row in range(count)]


class Network:
    """DeepFilterNet3; `weights` by the names of `convert.deepfilter_layout.expected_shapes`."""

    def __init__(self, weights: Weights, sizes: Sizes) -> None:
        self.sizes = sizes
        self._encoder = _Encoder(weights, sizes)
        self._gains = _GainDecoder(weights, sizes)
        self._filters = _FilterDecoder(weights, sizes)

    def start(self) -> State:
        """The state of one row before its first frame."""
        sizes, layers = self.sizes, (self._encoder.emb, self._gains.emb, self._filters.emb)
        return State(
            np.zeros((1, LOOK_BACK, sizes.bands, 1), np.float32),
            np.zeros((1, LOOK_BACK, sizes.low, 2), np.float32),
            np.zeros((1, sizes.pathway - 1, sizes.low, sizes.channels), np.float32),
            *(np.zeros((1, part.layers, part.hidden), np.float32) for part in layers),
        )

    def __call__(self, levels: Array, bins: Array, state: State) -> tuple[Array, Array, State]:
        """[rows, n, bands] and [rows, n, low, 2] -> gains [rows, n, bands] and filters [rows, n, low, order, 2]."""
        levels, bins = _after(state.levels, levels[..., None]), _after(state.bins, bins)
        heard, encoder = self._encoder(mx.array(levels), mx.array(bins), state.encoder)
        pathway = mx.concatenate([mx.array(state.pathway), heard.bins], axis=1)
        gains, gain_states = self._gains(heard, state.gains)
        filters, filter_states = self._filters(heard.embedding, pathway, state.filters)
        kept = pathway[:, pathway.shape[1] - state.pathway.shape[1] :]
        mx.eval(gains, filters, kept)
        levels, bins = levels[:, -LOOK_BACK:], bins[:, -LOOK_BACK:]
        return (
            np.array(gains),
            np.array(filters),
            State(levels, bins, np.array(kept), encoder, gain_states, filter_states),
        )


@dataclass(frozen=True, slots=True)
class _Heard:
    """What the encoder gives: the bands at four resolutions, finest first, the low bins, and one vector of all."""

    bands: tuple[mx.array, ...]
    bins: mx.array
    embedding: mx.array


class _Encoder:
    def __init__(self, weights: Weights, sizes: Sizes) -> None:
        channels = sizes.channels
        self._bands = [_Convolution(folding.block(weights, "enc.erb_conv0", into=1), stride=1)]
        for number, stride in ((1, 2), (2, 2), (3, 1)):
            self._bands.append(_Convolution(folding.block(weights, f"enc.erb_conv{number}", into=channels), stride))
        self._bins = _Convolution(folding.block(weights, "enc.df_conv0", into=2), stride=1)
        self._halved = _Convolution(folding.block(weights, "enc.df_conv1", into=channels), stride=2)
        self._project = _Grouped(weights, "enc.df_fc_emb.0")
        self.emb = _Recurrent(weights, "enc.emb_gru")
        self._out = _Grouped(weights, "enc.emb_gru.linear_out.0")

    def __call__(self, levels: mx.array, bins: mx.array, states: Array) -> tuple[_Heard, Array]:
        bands = []
        for convolution in self._bands:
            levels = convolution(levels)
            bands.append(levels)
        low = self._bins(bins)
        vector = _flat(levels) + nn.relu(self._project(_flat(self._halved(low))))
        vector, states = self.emb(vector, states)
        return _Heard(tuple(bands), low, nn.relu(self._out(vector))), states


class _GainDecoder:
    def __init__(self, weights: Weights, sizes: Sizes) -> None:
        channels = sizes.channels
        self.emb = _Recurrent(weights, "erb_dec.emb_gru")
        self._out = _Grouped(weights, "erb_dec.emb_gru.linear_out.0")
        self._skips = [_Scale(folding.pointwise(weights, f"erb_dec.conv{number}p")) for number in range(4)]
        self._coarse = _Convolution(folding.block(weights, "erb_dec.convt3", into=channels), stride=1)
        self._finer = [_Doubling(folding.doubling(weights, f"erb_dec.convt{number}")) for number in (2, 1)]
        last = folding.block(weights, "erb_dec.conv0_out", into=channels)
        self._last = _Shifted(folding.products(last, axis=2), axis=2)

    def __call__(self, heard: _Heard, states: Array) -> tuple[mx.array, Array]:
        vector, states = self.emb(heard.embedding, states)
        skips = [skip(bands) for skip, bands in zip(self._skips, heard.bands, strict=True)]
        x = skips[3] + nn.relu(self._out(vector)).reshape(skips[3].shape)
        x = skips[2] + self._coarse(x)
        for finer, skip in zip(self._finer, (skips[1], skips[0]), strict=True):
            x = skip + finer(x)
        padded = mx.pad(x, [(0, 0), (0, 0), (1, 1), (0, 0)])
        return sigmoid(self._last(padded)).squeeze(-1), states


class _FilterDecoder:
    def __init__(self, weights: Weights, sizes: Sizes) -> None:
        self._sizes = sizes
        self.emb = _Recurrent(weights, "df_dec.df_gru")
        self._skip = _Grouped(weights, "df_dec.df_skip")
        self._out = _Grouped(weights, "df_dec.df_out.0")
        pathway = folding.block(weights, "df_dec.df_convp", into=sizes.channels)
        self._pathway = _Shifted(folding.products(pathway, axis=1), axis=1)

    def __call__(self, embedding: mx.array, pathway: mx.array, states: Array) -> tuple[mx.array, Array]:
        vector, states = self.emb(embedding, states)
        shape = (*vector.shape[:2], self._sizes.low, 2 * self._sizes.order)
        filters = tanh(self._out(vector + self._skip(embedding))).reshape(shape) + nn.relu(self._pathway(pathway))
        return filters.reshape(*shape[:3], self._sizes.order, 2), states


class _Convolution:
    """Rectified; over the frequencies around, and the frames before as far as they come in: those it is short of."""

    def __init__(self, linear: Linear, stride: int) -> None:
        self._weight, self._bias, self._stride = mx.array(linear.weight), mx.array(linear.bias), stride

    def __call__(self, x: mx.array) -> mx.array:
        return nn.relu(mx.conv2d(x, self._weight, stride=(1, self._stride), padding=(0, 1)) + self._bias)


class _Doubling:
    """Rectified; twice the frequencies (`folding.doubling`)."""

    def __init__(self, linear: Linear) -> None:
        self._weight, self._bias = mx.array(linear.weight), mx.array(linear.bias)

    def __call__(self, x: mx.array) -> mx.array:
        even, odd, before = mx.split(x @ self._weight, 3, axis=-1)
        after = mx.pad(before[:, :, 1:], [(0, 0), (0, 0), (0, 1), (0, 0)])
        both = mx.stack([even, odd + after], axis=3)
        return nn.relu(both.reshape(*x.shape[:2], -1, even.shape[-1]) + self._bias)


class _Shifted:
    """A convolution along one axis to a few channels: a product for all its places, and the sum of them shifted.

    The output is shorter than what comes in by the kernel's length less 1.
    """

    def __init__(self, linear: Linear, axis: int) -> None:
        self._weight, self._bias, self._axis = mx.array(linear.weight), mx.array(linear.bias), axis

    def __call__(self, x: mx.array) -> mx.array:
        parts = mx.split(x @ self._weight, self._weight.shape[1] // self._bias.shape[0], axis=-1)
        length = x.shape[self._axis] - len(parts) + 1
        total = self._bias
        for shift, part in enumerate(parts):
            total = total + _slice(part, self._axis, shift, length)
        return total


class _Scale:
    """Rectified; each channel times a number, and a number."""

    def __init__(self, linear: Linear) -> None:
        self._weight, self._bias = mx.array(linear.weight), mx.array(linear.bias)

    def __call__(self, x: mx.array) -> mx.array:
        return nn.relu(x * self._weight + self._bias)


class _Grouped:
    """A product for each group of the numbers [rows, n, groups * in] -> [rows, n, groups * out]."""

    def __init__(self, weights: Weights, path: str) -> None:
        self._weight = mx.array(folding.grouped(weights, path))

    def __call__(self, x: mx.array) -> mx.array:
        groups, into, _ = self._weight.shape
        by_group = x.reshape(-1, groups, into).swapaxes(0, 1) @ self._weight
        return by_group.swapaxes(0, 1).reshape(*x.shape[:2], -1)


class _Recurrent:
    """A projection, rectified, and recurrent layers; states are [rows, layers, hidden]."""

    def __init__(self, weights: Weights, path: str) -> None:
        self._project = _Grouped(weights, f"{path}.linear_in.0")
        found = folding.recurrences(weights, f"{path}.gru")
        self._inputs = [(mx.array(linear.weight), mx.array(linear.bias)) for linear, _ in found]
        self._recurrences: list[Recurrence] = [recurrence for _, recurrence in found]
        self.layers, self.hidden = len(found), self._recurrences[0].hidden

    def __call__(self, x: mx.array, states: Array) -> tuple[mx.array, Array]:
        x, later = nn.relu(self._project(x)), []
        for number, ((weight, bias), recurrence) in enumerate(zip(self._inputs, self._recurrences, strict=True)):
            outputs, state = recurrence(np.array(x @ weight + bias), states[:, number])
            x = mx.array(outputs)
            later.append(state)
        return x, np.stack(later, axis=1)


def _flat(x: mx.array) -> mx.array:
    """[rows, n, frequencies, channels] -> [rows, n, frequencies * channels]."""
    return x.reshape(*x.shape[:2], -1)


def _after(before: Array, values: Array) -> Array:
    return np.concatenate([before, values], axis=1)


def _slice(x: mx.array, axis: int, start: int, length: int) -> mx.array:
    place: list[Any] = [slice(None)] * x.ndim
    place[axis] = slice(start, start + length)
    return x[tuple(place)]
