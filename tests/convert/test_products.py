from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.convert import products


@pytest.mark.parametrize(("kernel", "dilation", "padding"), [(3, 1, 1), (3, 3, 3), (11, 5, 25), (7, 3, 0)])
def test_a_dilated_convolution(kernel: int, dilation: int, padding: int) -> None:
    x, w = mx.random.normal((1, 60, 4)), mx.random.normal((5, kernel, 4))
    ours = products.conv1d(x, w, padding=padding, dilation=dilation)
    np.testing.assert_allclose(ours, mx.conv1d(x, w, 1, padding, dilation), atol=1e-4)


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(20, 10, 5), (12, 6, 3), (3, 2, 1)])
def test_a_transposed_convolution(kernel: int, stride: int, padding: int) -> None:
    x, w = mx.random.normal((1, 9, 4)), mx.random.normal((5, kernel, 4))
    ours = products.conv_transpose1d(x, w, stride, padding)
    np.testing.assert_allclose(ours, mx.conv_transpose1d(x, w, stride, padding), atol=1e-4)
