"""The published weights, folded: each block of convolutions and its normalization as one matrix or kernel, and a bias.

Between a block's convolution over neighbours, its 1 x 1 convolution and its batch normalization nothing bends, so that
they are one linear map, which MLX's CPU build computes as a matrix product; a convolution by groups it does in a loop.
Kernels come as [out, in of a group, time, frequency], PyTorch's layout. No MLX.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mlxbatch.engines.deepfilter.recurrence import Recurrence, halved

Array = NDArray[np.float32]
Weights = Mapping[str, Array]

EPSILON = 1e-5  # PyTorch's in batch normalization


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear map and what is added; the layout of `weight` is that of the function that made it."""

    weight: Array
    bias: Array


def block(weights: Weights, path: str, *, into: int) -> Linear:
    """A block that convolves `into` channels: its kernel for MLX, [out, time, frequency, in]."""
    return _normalized(weights, path, _dense(_kernels(weights, path), into).transpose(0, 2, 3, 1))


def pointwise(weights: Weights, path: str) -> Linear:
    """A block of one factor for each channel, [channels]."""
    (kernel,) = _kernels(weights, path)
    return _normalized(weights, path, kernel[:, 0, 0, 0])


def doubling(weights: Weights, path: str) -> Linear:
    """A block that doubles the frequencies, by a transposed convolution 3 wide, each channel by itself: [in, 3 * out].

    Of a channel's value at i, what its weights 1, 2 and 0 give the frequencies 2 i, 2 i + 1 and 2 i - 1.
    """
    spread, mix = _kernels(weights, path)
    mixing, across = _normalized(weights, path, mix[:, :, 0, 0]), spread[:, 0, 0, :]
    parts = [across[:, k, None] * mixing.weight.T for k in (1, 2, 0)]
    return Linear(np.concatenate(parts, axis=1), mixing.bias)


def products(linear: Linear, axis: int) -> Linear:
    """A kernel as of `block` that extends along one axis of its layout alone: [in, k * out], to sum what it gives."""
    kernel = linear.weight.squeeze(3 - axis)
    return Linear(np.ascontiguousarray(kernel.transpose(2, 1, 0)).reshape(kernel.shape[2], -1), linear.bias)


def grouped(weights: Weights, path: str) -> Array:
    """A projection by groups: [groups, in, out]."""
    return weights[f"{path}.weight"]


def recurrences(weights: Weights, path: str) -> list[tuple[Linear, Recurrence]]:
    """A stack of recurrent layers: the inputs' side, [in, 3 * hidden], and the states'."""
    count = sum(name.startswith(f"{path}.weight_ih_l") for name in weights)
    return [_recurrence(weights, path, layer) for layer in range(count)]


def _recurrence(weights: Weights, path: str, layer: int) -> tuple[Linear, Recurrence]:
    of_inputs, of_states = (weights[f"{path}.bias_{side}_l{layer}"] for side in ("ih", "hh"))
    hidden = len(of_states) // 3
    # Of the states' bias only the new state's part is weighed, by the reset gate, before it is added.
    bias = of_inputs + np.concatenate([of_states[: 2 * hidden], np.zeros(hidden, np.float32)])
    inputs, states = (
        np.ascontiguousarray(halved(weights[f"{path}.weight_{side}_l{layer}"]).T) for side in ("ih", "hh")
    )
    return Linear(inputs, halved(bias)), Recurrence(states, of_states[2 * hidden :])


def _kernels(weights: Weights, path: str) -> list[Array]:
    """A block's one or two convolutions; their numbers in the names depend on whether a padding comes before."""
    names = [f"{path}.{number}.weight" for number in range(3)]
    return [weights[name] for name in names if name in weights and weights[name].ndim == 4]


def _dense(kernels: list[Array], into: int) -> Array:
    """A convolution by groups, and a 1 x 1 convolution after it, as one of all channels."""
    first, *mixes = kernels
    out, of_group, *extent = first.shape
    whole = np.zeros((out, into, *extent), np.float32)
    groups = into // of_group
    for group in range(groups):
        rows = slice(group * out // groups, (group + 1) * out // groups)
        whole[rows, group * of_group : (group + 1) * of_group] = first[rows]
    for mix in mixes:
        whole = np.tensordot(mix[:, :, 0, 0], whole, axes=1)
    return whole


def _normalized(weights: Weights, path: str, kernel: Array) -> Linear:
    """`kernel` [out, ...] with the block's batch normalization after it."""
    (norm,) = (name.removesuffix(".running_mean") for name in weights if _is_mean(name, path))
    factor = weights[f"{norm}.weight"] / np.sqrt(weights[f"{norm}.running_var"] + np.float32(EPSILON))
    bias = weights[f"{norm}.bias"] - weights[f"{norm}.running_mean"] * factor
    scaled = kernel * factor.reshape(-1, *[1] * (kernel.ndim - 1))
    return Linear(np.ascontiguousarray(scaled, np.float32), bias.astype(np.float32))


def _is_mean(name: str, path: str) -> bool:
    return name.startswith(f"{path}.") and name.endswith(".running_mean")
