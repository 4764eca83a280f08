"""Convolutions rewritten: what MLX's own give."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from mlxbatch.engines.mlx_audio import convolutions
from mlxbatch.engines.mlx_audio.convolutions import conv1d, conv_transpose1d, rewritten


def arrays(length: int, channels: int, out: int, kernel: int) -> tuple[mx.array, mx.array]:
    rng = np.random.default_rng(length)
    x, weight = rng.standard_normal((2, length, channels)), rng.standard_normal((out, kernel, channels))
    return mx.array(x.astype(np.float32)), mx.array(weight.astype(np.float32))


@pytest.mark.parametrize(
    ("length", "kernel", "stride", "padding", "dilation"),
    [(50, 7, 1, 9, 3), (41, 3, 1, 5, 5), (33, 11, 1, 25, 5), (30, 3, 1, 0, 2), (30, 3, 2, 1, 2), (30, 5, 3, 0, 1)],
)
def test_a_dilated_one(length: int, kernel: int, stride: int, padding: int, dilation: int) -> None:
    x, weight = arrays(length, 4, 6, kernel)
    expected = mx.conv1d(x, weight, stride, padding, dilation)
    np.testing.assert_allclose(conv1d(x, weight, stride, padding, dilation), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("length", "kernel", "stride", "padding", "more"),
    [(20, 20, 10, 5, 0), (17, 12, 6, 3, 0), (9, 4, 4, 0, 0), (11, 5, 2, 1, 1), (10, 3, 4, 0, 0), (5, 3, 1, 1, 0)],
)
def test_a_transposed_one(length: int, kernel: int, stride: int, padding: int, more: int) -> None:
    x, weight = arrays(length, 3, 4, kernel)
    expected = mx.conv_transpose1d(x, weight, stride, padding, 1, more)
    found = conv_transpose1d(x, weight, stride, padding, output_padding=more)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_what_is_not_rewritten_is_mlxs_own() -> None:
    x, _ = arrays(10, 4, 4, 3)
    weight = mx.array(np.random.default_rng(1).standard_normal((4, 3, 1)).astype(np.float32))
    np.testing.assert_array_equal(conv_transpose1d(x, weight, 2, groups=4), mx.conv_transpose1d(x, weight, 2, groups=4))
    np.testing.assert_array_equal(conv1d(x, weight, groups=4), mx.conv1d(x, weight, groups=4))


def test_mlxs_own_come_back() -> None:
    own = mx.conv1d, mx.conv_transpose1d

    def fail() -> None:
        with rewritten():
            assert (mx.conv1d, mx.conv_transpose1d) == (convolutions.conv1d, convolutions.conv_transpose1d)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fail()
    assert (mx.conv1d, mx.conv_transpose1d) == own
