"""The kernels against numpy in float64, on the device that tests run on."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import erf, log_softmax, softmax
from scipy.special import logsumexp as scipy_logsumexp

from mlxbatch import kernels

Array = NDArray[np.float64]


def random(*shape: int, seed: int = 0, scale: float = 1.0) -> mx.array:
    return mx.array((scale * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32))


def wide(array: mx.array) -> Array:
    return np.array(array.astype(mx.float32), np.float64)


def reference(q: mx.array, k: mx.array, v: mx.array, scale: float, mask: NDArray[np.bool_] | None = None) -> Array:
    scores = scale * wide(q) @ wide(k).swapaxes(-1, -2)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    return np.asarray(softmax(scores, axis=-1) @ wide(v))


# ---- attention


@pytest.mark.parametrize(
    ("n", "heads", "t", "s"),
    [(1, 1, 1, 1), (2, 3, 5, 7), (3, 2, 1, 1500), (1, 8, 2, 1500), (2, 2, 600, 1500), (1, 2, 1500, 1500)],
)
def test_attention(n: int, heads: int, t: int, s: int) -> None:
    q, k, v = random(n, heads, t, 64), random(n, heads, s, 64, seed=1), random(n, heads, s, 64, seed=2)
    found = kernels.attention(q, k, v, scale=0.125)
    assert found.shape == (n, heads, t, 64)
    assert np.abs(wide(found) - reference(q, k, v, 0.125)).max() < 1e-5


@pytest.mark.parametrize("shape", [(5, 7), (2, 1, 5, 7), (1, 1, 1, 7)])
def test_a_mask_hides_keys(shape: tuple[int, ...]) -> None:
    q, k, v = random(2, 3, 5, 8), random(2, 3, 7, 8, seed=1), random(2, 3, 7, 8, seed=2)
    mask = np.random.default_rng(3).random(shape) < 0.5
    mask[..., 2] = True  # a query with nothing to see has no answer
    found = wide(kernels.attention(q, k, v, scale=0.3, mask=mx.array(mask)))
    assert np.abs(found - reference(q, k, v, 0.3, mask)).max() < 1e-5
    hidden = np.where(mask.reshape(-1, 7).any(axis=0), 0, 1e6)[:, None].astype(np.float32)
    assert np.allclose(found, wide(kernels.attention(q, k, v + hidden, scale=0.3, mask=mx.array(mask))), atol=1e-5)


def test_a_mask_that_shows_all_hides_nothing() -> None:
    q, k, v = random(2, 3, 5, 8), random(2, 3, 7, 8, seed=1), random(2, 3, 7, 8, seed=2)
    masked = kernels.attention(q, k, v, scale=0.3, mask=mx.ones((5, 7), mx.bool_))
    assert np.abs(wide(masked) - wide(kernels.attention(q, k, v, scale=0.3))).max() < 1e-6


@pytest.mark.parametrize("size", [1e2, 1e4])
def test_large_scores(size: float) -> None:
    """Of +-1e4 and their neighbours: the largest takes it all, and nothing overflows."""
    q, k = mx.array([[[[1.0]]]]), mx.array([[[[size], [-size], [size - 1], [0.0]]]])
    v = random(1, 1, 4, 8)
    found = wide(kernels.attention(q, k, v, scale=1.0))
    # A float32 score of 1e4 has steps of 1e-3, and base 2 rounds it once more.
    assert np.abs(found - reference(q, k, v, 1.0)).max() < 1e-3 * max(1, size / 1e4)


@pytest.mark.parametrize(("dtype", "tolerance"), [(mx.float16, 2e-3), (mx.bfloat16, 2e-2)])
def test_attention_in_half_precision(dtype: mx.Dtype, tolerance: float) -> None:
    q, k, v = (random(2, 2, 300, 64, seed=seed).astype(dtype) for seed in range(3))
    found = kernels.attention(q, k, v, scale=0.125)
    assert found.dtype == dtype
    assert np.abs(wide(found) - reference(q, k, v, 0.125)).max() < tolerance


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_even_attention_to_large_values_does_not_overflow(dtype: mx.Dtype) -> None:
    """1500 equal weights times 60 are over float16's largest number when they are summed before they are divided."""
    q, k, v = mx.zeros((1, 1, 2, 64), dtype), mx.zeros((1, 1, 1500, 64), dtype), mx.full((1, 1, 1500, 64), 60, dtype)
    assert np.allclose(wide(kernels.attention(q, k, v, scale=0.125)), 60, atol=0.5)


def test_a_row_does_not_see_its_neighbours() -> None:
    q, k, v = (random(3, 2, 400, 64, seed=seed) for seed in range(3))
    alone = wide(kernels.attention(q[1:2], k[1:2], v[1:2], scale=0.125))
    k[0], v[2] = mx.nan, mx.nan
    found = wide(kernels.attention(q, k, v, scale=0.125))
    assert np.abs(found[1:2] - alone).max() < 1e-6
    assert np.isnan(found[0]).all()


def test_work_in_stretches_is_work_on_all() -> None:
    for length in (1, 191, 192, 193, 500):
        x = random(2, length, 8)
        assert np.array_equal(wide(kernels.by_rows(kernels.gelu, x)), wide(kernels.gelu(x)))


# ---- logsumexp


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e4])
def test_logsumexp(scale: float) -> None:
    x = random(5, 2000, scale=scale)
    found, wanted = wide(kernels.logsumexp(x)), scipy_logsumexp(wide(x), axis=-1)
    assert np.abs(found - wanted).max() < 2e-6 * max(1.0, np.abs(wanted).max())
    rest = wide(x - kernels.logsumexp(x)[:, None])
    assert np.allclose(rest, log_softmax(wide(x), axis=-1), atol=1e-5 * max(1, scale))


def test_logsumexp_of_nothing_allowed_and_of_nan() -> None:
    infinite, nan = -np.inf, np.nan
    x = mx.array(
        [[infinite] * 3, [infinite, 1.5, infinite], [nan, 0, 1], [0, nan, infinite], [nan, infinite, infinite]]
    )
    found = kernels.logsumexp(x).tolist()
    assert found[:2] == [infinite, 1.5]
    assert np.isnan(found[2:]).all()


# ---- powers of two


def test_powers_of_two() -> None:
    x = np.concatenate([np.linspace(-126, 127, 1_000_001), np.arange(-126, 128)]).astype(np.float32)
    found, wanted = wide(kernels.exp2(mx.array(x))), np.exp2(x.astype(np.float64))
    assert np.abs(found / wanted - 1).max() < 3e-7
    assert np.array_equal(found[-254:], wanted[-254:])  # whole ones to the bit


def test_powers_of_two_at_the_ends() -> None:
    found = kernels.exp2(mx.array([-np.inf, -1e30, -127.0, np.nan])).tolist()
    assert found[:3] == [2.0**-126] * 3
    assert np.isnan(found[3])


# ---- GELU


def test_gelu() -> None:
    x = np.concatenate([np.linspace(-12, 12, 20_001), np.linspace(-0.01, 0.01, 2001)]).astype(np.float32)
    wanted = x.astype(np.float64) * 0.5 * (1 + erf(x.astype(np.float64) / np.sqrt(2)))
    assert np.abs(wide(kernels.gelu(mx.array(x))) - wanted).max() < 1e-6


def test_gelu_at_the_ends() -> None:
    x = mx.array([0.0, 1e30, -1e30, np.inf, np.nan])
    found = kernels.gelu(x).tolist()
    assert found[:4] == [0, pytest.approx(1e30), pytest.approx(0, abs=1e-30), np.inf]
    assert np.isnan(found[4])


@pytest.mark.parametrize(("dtype", "tolerance"), [(mx.float16, 5e-3), (mx.bfloat16, 4e-2)])
def test_gelu_in_half_precision(dtype: mx.Dtype, tolerance: float) -> None:
    x = mx.linspace(-6, 6, 1001).astype(dtype)
    found = kernels.gelu(x)
    assert found.dtype == dtype
    wanted = wide(x) * 0.5 * (1 + erf(wide(x) / np.sqrt(2)))
    assert np.abs(wide(found) - wanted).max() < tolerance
