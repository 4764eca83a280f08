"""Exact rewrites of one-dimensional convolutions for MLX's CPU build, which has no fast way for some of them.

It makes a matrix product of a plain one alone; those that are dilated or transposed take a loop over single numbers,
and a vocoder is made of those (Kokoro takes 31 s for a second of speech).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mlx.core as mx

from mlxbatch import kernels

_plain, _transposed = mx.conv1d, mx.conv_transpose1d


@contextmanager
def rewritten() -> Iterator[None]:
    """MLX's own convolutions are the ones here while this lasts, on a CPU, for models that are built and run in it.

    For the whole process: no other thread may convolve meanwhile.
    """
    if kernels.on_gpu():
        yield
        return
    mx.conv1d, mx.conv_transpose1d = conv1d, conv_transpose1d
    try:
        yield
    finally:
        mx.conv1d, mx.conv_transpose1d = _plain, _transposed


def conv1d(
    x: mx.array, weight: mx.array, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1, **more: Any
) -> mx.array:
    """mx.conv1d. x [n, length, in], weight [out, kernel, in]; a dilated one is a plain one on every d-th number.

    The d sequences that d steps apart make, each with its own phase, are a batch; their outputs interleave.
    """
    if dilation == 1 or stride != 1 or groups != 1:
        return _plain(x, weight, stride, padding, dilation, groups, **more)
    n, length, channels = x.shape
    padded = length + 2 * padding
    wanted = padded - dilation * (weight.shape[1] - 1)
    extra = -padded % dilation  # so that all phases are of one length
    x = mx.pad(x, [(0, 0), (padding, padding + extra), (0, 0)])
    x = x.reshape(n, -1, dilation, channels).swapaxes(1, 2).reshape(n * dilation, -1, channels)
    y = _plain(x, weight)
    out = y.shape[-1]
    return y.reshape(n, dilation, -1, out).swapaxes(1, 2).reshape(n, -1, out)[:, :wanted]


def conv_transpose1d(
    x: mx.array,
    weight: mx.array,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    output_padding: int = 0,
    groups: int = 1,
    **more: Any,
) -> mx.array:
    """mx.conv_transpose1d. x [n, length, in], weight [out, kernel, in]; as one matrix product and sums of its parts.

    A number adds to `kernel` outputs: as many rows of `stride` outputs as those take, each shifted by one against the
    next number's.
    """
    if dilation != 1 or groups != 1:
        return _transposed(x, weight, stride, padding, dilation, output_padding, groups, **more)
    n, length, _ = x.shape
    out, kernel, channels = weight.shape
    rows = -(-kernel // stride)
    matrix = mx.pad(weight, [(0, 0), (0, rows * stride - kernel), (0, 0)]).transpose(2, 1, 0).reshape(channels, -1)
    parts = (x @ matrix).reshape(n, length, rows, stride * out)
    shifted = (mx.pad(parts[:, :, row], [(0, 0), (row, rows - 1 - row), (0, 0)]) for row in range(rows))
    y = sum(shifted, start=mx.array(0.0, x.dtype)).reshape(n, -1, out)
    end = (length - 1) * stride + kernel - padding + output_padding
    y = mx.pad(y, [(0, 0), (0, max(0, end - y.shape[1])), (0, 0)])
    return y[:, padding:end]
