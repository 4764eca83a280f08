"""From a divergence for each token to the figures that are reported. Pure but for NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mlxbatch.convert.proof.quality import Divergence
from mlxbatch.convert.proof.ratio import ratio

# Those of llama.cpp's `llama-perplexity --kl-divergence`, beside mean, median and maximum.
QUANTILES = ("90", "95", "99", "99.9")


def summarize(nats: Sequence[NDArray[np.float64]], same_top: Sequence[NDArray[np.bool_]]) -> Divergence:
    """The figures of all tokens; each array is of one clip, with a value for each of its tokens.

    A divergence that is no number (the converted model gave NaN) counts as infinite. ValueError without any token.
    """
    every = np.concatenate([np.asarray(some, np.float64) for some in nats]) if nats else np.zeros(0)
    if not len(every):
        raise ValueError("no token to compare")
    every = np.where(np.isnan(every), np.inf, every)
    sizes = [len(some) for some in nats]
    ends = np.cumsum(sizes)[:-1]
    # With an infinity among its neighbours NumPy's interpolation would be NaN.
    at = {name: float(np.percentile(every, float(name), method="higher")) for name in QUANTILES}
    return Divergence(
        tokens=len(every),
        mean=ratio([float(part.sum()) for part in np.split(every, ends)], sizes),
        median=float(np.percentile(every, 50, method="higher")),
        quantiles=at,
        largest=float(every.max()),
        same_top=ratio([float(some.sum()) for some in same_top], sizes),
    )
