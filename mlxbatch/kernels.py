"""Attention, GELU and log-sum-exp, by the device: MLX's fused kernels on a GPU, exact rewrites on the CPU.

On Linux CPU MLX's exp, erf and power are scalar (6 to 40 ns an element; a product takes 0.3), and they, not the matrix
products, would be most of a transformer's time. Here they are made of sums and products alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import mlx.core as mx
import mlx.nn as nn

from mlxbatch.tiles import tile

LOG2E = math.log2(math.e)

# Queries from which on it pays to treat each head by itself.
MANY = 32

# 2^f for f in [-0.5, 0.5]: the polynomial of least relative error, 9e-8, among those that make 2^0 exactly 1.
_EXP2 = (1.0, 0.693146977590816, 0.2402224206938533, 0.05550733746951131, 0.009671513690145659, 0.0013264729677999465)
# Added to a number, it leaves the number's nearest integer, and 127, the exponent's bias, in the last bits of the sum.
_ROUND = 1.5 * 2**23 + 127.0
# The least power of two that is a normal number.
_LEAST = -126.0


def on_gpu() -> bool:
    return bool(mx.default_device() == mx.Device(mx.gpu))


def exp2(x: mx.array) -> mx.array:
    """2^x, float32, of numbers up to 127; 2^-126 for all that are less. NaN stays NaN.

    2^x = 2^n 2^f: n the nearest integer, whose power is written into the bits of a number's exponent, and f the rest.
    """
    x = mx.maximum(x, _LEAST)
    rounded = x + _ROUND
    f = x - (rounded - _ROUND)
    power = f * _EXP2[-1] + _EXP2[-2]
    for coefficient in reversed(_EXP2[:-2]):
        power = power * f + coefficient
    return power * (rounded.view(mx.int32) << 23).view(mx.float32)


def attention(q: mx.array, k: mx.array, v: mx.array, *, scale: float, mask: mx.array | None = None) -> mx.array:
    """softmax(q k^T * scale + mask) v. q [n, heads, t, d]; k, v [n, heads, s, d].

    `mask` is boolean, True where a key is seen, or of the scores' type, what is added to them, [n or 1, 1, 1 or t, s].
    """
    # Half precision goes to MLX as well: 1500 weights of up to 1 times values of 50 are over float16's 65504.
    if on_gpu() or q.dtype != mx.float32:
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=mask)
    q = q * (scale * LOG2E)
    n, heads, t, _ = q.shape
    if t < MANY or (mask is not None and mask.shape[2] != 1):
        return _few_queries(q, k, v, mask)
    shares = [None] * n if mask is None else [exp2(row[0].swapaxes(-1, -2) * LOG2E) for row in mask]
    some, rows = tile(heads, t, k.shape[2])
    parts = [
        mx.concatenate(
            [
                _many_queries(
                    q[i, h : h + some, r : r + rows], k[i, h : h + some], v[i, h : h + some], shares[i % len(shares)]
                )
                for r in range(0, t, rows)
            ],
            axis=1,
        )
        for i in range(n)
        for h in range(0, heads, some)
    ]
    return mx.concatenate(parts).reshape(n, heads, t, -1)


def _few_queries(q: mx.array, k: mx.array, v: mx.array, mask: mx.array | None) -> mx.array:
    """Attention for q that carries scale * log2 e already: softmax to base 2."""
    scores = q @ k.swapaxes(-1, -2)
    if mask is not None:
        scores = mx.where(mask, scores, -mx.inf) if mask.dtype == mx.bool_ else scores + mask * LOG2E
    weights = exp2(scores - mx.max(scores, axis=-1, keepdims=True))
    # Dividing the t x d result, not the t x s weights, saves a pass over the largest array.
    return (weights @ v) / mx.sum(weights, axis=-1, keepdims=True)


def _many_queries(q: mx.array, k: mx.array, v: mx.array, shares: mx.array | None) -> mx.array:
    """The same for some heads, q [heads, t, d], k and v [heads, s, d].

    What the mask adds to a key's scores comes as what the key counts for, e^mask, `shares` [s, 1]: a product for each
    key, not a sum for each score. Scores lie key by key, for along that axis maxima and sums take a third of the time.
    """
    scores = k @ q.swapaxes(-1, -2)
    weights = exp2(scores - mx.max(scores, axis=-2, keepdims=True))
    if shares is None:
        shared = v.swapaxes(-1, -2) @ weights / mx.sum(weights, axis=-2, keepdims=True)
    else:
        shared = (v * shares).swapaxes(-1, -2) @ weights / (shares.T @ weights)
    return shared.swapaxes(-1, -2)


def by_rows(work: Callable[[mx.array], mx.array], x: mx.array, rows: int = 768) -> mx.array:
    """`work`, which treats rows apart, on x [n, t, d]: on the CPU in stretches of t, to bound what is held."""
    if on_gpu() or x.shape[1] <= rows:
        return work(x)
    return mx.concatenate([work(part) for part in mx.split(x, range(rows, x.shape[1], rows), axis=1)], axis=1)


def logsumexp(x: mx.array, top: mx.array | None = None) -> mx.array:
    """log(sum(exp(x))) over the last axis; -inf for a row that is all -inf, NaN where x holds NaN.

    `top`: the largest of each row, where it is known.
    """
    if on_gpu():
        return mx.logsumexp(x, axis=-1)
    top = mx.max(x, axis=-1) if top is None else top
    # A row of -inf would give -inf - -inf = NaN: shift it by nothing instead.
    safe = mx.where(top == -mx.inf, 0.0, top)
    total = mx.sum(exp2((x - safe[..., None]) * LOG2E), axis=-1)
    return mx.where(top == -mx.inf, top, safe + mx.log(total))


def gelu(x: mx.array) -> mx.array:
    """x * Phi(x), the exact GELU of Hendrycks and Gimpel 2016, not the tanh approximation.

    On the CPU Phi is built from Abramowitz and Stegun 7.1.28, whose absolute error of 3e-7 is near float32's own.
    """
    if on_gpu() or x.dtype != mx.float32:
        return nn.gelu(x)
    a = mx.minimum(mx.abs(x), _ALL)
    poly = a * _ERFC[-1] + _ERFC[-2]
    for coefficient in reversed(_ERFC[:-2]):
        poly = poly * a + coefficient
    for _ in range(4):
        poly = mx.square(poly)
    return mx.maximum(x, 0.0) - a * (0.5 / poly)  # x Phi(x) = max(x, 0) - |x| (1 - Phi(|x|))


# From here on the tail is nothing, and infinity times it would be NaN.
_ALL = 16.0
# erfc(z) = 1 / (1 + a1 z + ... + a6 z^6)^16 for z = |x| / sqrt 2, whose powers are in the coefficients.
_A = (1.0, 0.0705230784, 0.0422820123, 0.0092705272, 0.0001520143, 0.0002765672, 0.0000430638)
_ERFC = tuple(a * math.sqrt(0.5) ** i for i, a in enumerate(_A))
