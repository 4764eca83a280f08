"""In how many bits each layer of a converted model is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Mode = Literal["affine", "mxfp4", "mxfp8", "nvfp4"]
Dtype = Literal["float32", "float16", "bfloat16"]


@dataclass(frozen=True, slots=True)
class Packing:
    """How a layer's matrix is packed: bits a weight, in groups of so many with a scale (and in affine an offset)."""

    bits: int
    group_size: int = 64
    mode: Mode = "affine"


@dataclass(frozen=True, slots=True)
class Precision:
    """What a whole model is brought to: `packed` says how for each layer by its path, all else is of `dtype` (None: as
    it is stored). `kept` says why a layer that could have been packed is not."""

    packed: Mapping[str, Packing] = field(default_factory=dict)
    dtype: Dtype | None = None
    kept: Mapping[str, str] = field(default_factory=dict)
