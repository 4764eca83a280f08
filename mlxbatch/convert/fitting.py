"""Weights found in a foreign file, held against those that a model needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlxbatch.convert.checkpoint import Weight
from mlxbatch.models.weights import Shape

Read = Callable[[], NDArray[np.float32]]
Found = tuple[Shape, Read]
"""A weight's shape, and its values when they are asked for."""


def fitted(found: Mapping[str, Found], needed: Mapping[str, Shape]) -> dict[str, Weight]:
    """The model's weights, float32, in its own order; what else was found is none of its.

    ValueError that names the first one missing or of another shape.
    """
    for name, shape in needed.items():
        if name not in found:
            raise ValueError(f"the weight {name} is missing")
        if found[name][0] != shape:
            raise ValueError(f"{name} has shape {list(found[name][0])}, {list(shape)} is needed")
    return {name: _weight(*found[name]) for name in needed}


def zeros(shape: Shape) -> Found:
    return shape, lambda: np.zeros(shape, np.float32)


def _weight(shape: Shape, read: Read) -> Weight:
    return Weight(shape, "F32", lambda: mx.array(np.ascontiguousarray(read())))
