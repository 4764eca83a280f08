"""Attention, GELU and log-sum-exp, by the device: MLX's fused kernels on a GPU, exact rewrites on the CPU.

On Linux CPU MLX's exp and erf are scalar (20 to 60 ns an element; `power` takes 7 to 11, a product 0.3), and they, not
the matrix products, are most of a transformer's time. Base 2 makes softmax one `power`: 2^(x log2 e) / sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import mlx.core as mx
import mlx.nn as nn

LOG2E = math.log2(math.e)

# Scores worked on at once on the CPU, 1.5 MB, so that they stay in the second-level cache. What it is for is memory: an
# encoder call of Whisper base peaks at 60 MB instead of 258, with the same result to the bit. One attention layer alone
# was faster too (272 ms against 392); over the whole encoder the difference was within the machine's noise.
TILE = 375_000


def on_gpu() -> bool:
    return bool(mx.default_device() == mx.Device(mx.gpu))


def attention(q: mx.array, k: mx.array, v: mx.array, *, scale: float, mask: mx.array | None = None) -> mx.array:
    """softmax(q k^T * scale) v. q [n, heads, t, d]; k, v [n, heads, s, d]; mask boolean, True where a key is seen."""
    # Half precision goes to MLX as well: 1500 weights of up to 1 times values of 50 are over float16's 65504.
    if on_gpu() or q.dtype != mx.float32:
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=mask)
    q = q * (scale * LOG2E)
    n, heads, t, _ = q.shape
    rows = max(1, TILE // k.shape[2])
    if mask is not None or t <= rows:
        return _softmax2(q, k, v, mask)
    per_head = [
        mx.concatenate([_softmax2(q[i, h, r : r + rows], k[i, h], v[i, h], None) for r in range(0, t, rows)])
        for i in range(n)
        for h in range(heads)
    ]
    return mx.stack(per_head).reshape(n, heads, t, -1)


def _softmax2(q: mx.array, k: mx.array, v: mx.array, mask: mx.array | None) -> mx.array:
    """Attention for q that carries scale * log2 e already: softmax to base 2."""
    scores = q @ k.swapaxes(-1, -2)
    if mask is not None:
        scores = mx.where(mask, scores, -mx.inf)
    weights = mx.power(2.0, scores - mx.max(scores, axis=-1, keepdims=True))
    # Dividing the t x d result, not the t x s weights, saves a pass over the largest array.
    return (weights @ v) / mx.sum(weights, axis=-1, keepdims=True)


def by_rows(work: Callable[[mx.array], mx.array], x: mx.array, rows: int = 192) -> mx.array:
    """`work`, which treats rows apart, on x [n, t, d]: on the CPU in stretches of t that stay in the cache."""
    if on_gpu() or x.shape[1] <= rows:
        return work(x)
    return mx.concatenate([work(part) for part in mx.split(x, range(rows, x.shape[1], rows), axis=1)], axis=1)


def logsumexp(x: mx.array) -> mx.array:
    """log(sum(exp(x))) over the last axis; -inf for a row that is all -inf, NaN where x holds NaN."""
    if on_gpu():
        return mx.logsumexp(x, axis=-1)
    top = mx.max(x, axis=-1, keepdims=True)
    # A row of -inf would give -inf - -inf = NaN: shift it by nothing instead.
    safe = mx.where(top == -mx.inf, 0.0, top)
    total = mx.sum(mx.power(2.0, (x - safe) * LOG2E), axis=-1)
    return mx.squeeze(safe, -1) + mx.log(total)


def gelu(x: mx.array) -> mx.array:
    """x * Phi(x), the exact GELU of Hendrycks and Gimpel 2016, not the tanh approximation.

    On the CPU Phi is built from Abramowitz and Stegun 7.1.26, whose absolute error of 1.5e-7 is float32's own.
    """
    if on_gpu() or x.dtype != mx.float32:
        return nn.gelu(x)
    z = mx.abs(x) * math.sqrt(0.5)
    t = 1.0 / (1.0 + 0.3275911 * z)
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    tail = 0.5 * poly * mx.power(2.0, z * z * -LOG2E)  # 1 - Phi(|x|)
    return x * mx.where(x > 0, 1.0 - tail, tail)
