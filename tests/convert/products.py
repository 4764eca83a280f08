"""Convolutions as matrix products: MLX's CPU build takes a loop for those that are dilated or transposed.

A second of Kokoro's speech then takes seconds of a CPU and not half a minute.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import pytest

_conv1d, _conv_transpose1d = mx.conv1d, mx.conv_transpose1d


def conv1d(
    x: mx.array, w: mx.array, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1, **more: Any
) -> mx.array:
    """x [n, l, in], w [out, k, in]: a product for each k of the sound shifted by it."""
    if dilation == 1 or stride != 1 or groups != 1:
        return _conv1d(x, w, stride, padding, dilation, groups, **more)
    x = mx.pad(x, [(0, 0), (padding, padding), (0, 0)])
    kernel = w.shape[1]
    length = x.shape[1] - dilation * (kernel - 1)
    parts = [x[:, k * dilation : k * dilation + length] @ w[:, k].T for k in range(kernel)]
    return mx.stack(parts).sum(0)


def conv_transpose1d(
    x: mx.array, w: mx.array, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1, **more: Any
) -> mx.array:
    """x [1, l, in], w [out, k, in]: each step's product is added where it falls."""
    if dilation != 1 or groups != 1 or more or x.shape[0] != 1:
        return _conv_transpose1d(x, w, stride, padding, dilation, groups=groups, **more)
    length, (out, kernel, into) = x.shape[1], w.shape
    parts = (x[0] @ w.transpose(2, 1, 0).reshape(into, kernel * out)).reshape(length * kernel, out)
    places = (stride * mx.arange(length)[:, None] + mx.arange(kernel)).flatten()
    whole = mx.zeros((stride * (length - 1) + kernel, out)).at[places].add(parts)
    return whole[None, padding : whole.shape[0] - padding]


def use(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(mx, "conv1d", conv1d)
    patch.setattr(mx, "conv_transpose1d", conv_transpose1d)
