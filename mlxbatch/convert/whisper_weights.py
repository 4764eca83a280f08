"""A Whisper from whatever it was published as: the weights MLX needs, in its names, order and layout, and the files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mlxbatch.convert.readers.stored import Stored
from mlxbatch.engines.whisper.layout import Dims, expected_shapes

# Of each weight's name what follows it where its layer is packed.
PACKED = (".weight", ".scales", ".biases")


@dataclass(frozen=True, slots=True)
class Whisper:
    """`weights` by MLX's names, `files` by theirs in a model directory, but for config.json."""

    dims: Dims
    weights: Mapping[str, Stored]
    files: Mapping[str, bytes | Path]


def layers(dims: Dims) -> frozenset[str]:
    """The paths of the layers that MLX can quantize: projections and the token embedding, all that is a matrix."""
    shapes = expected_shapes(dims)
    return frozenset(
        name.removesuffix(".weight") for name, shape in shapes.items() if name.endswith(".weight") and len(shape) == 2
    )


def whole(named: Mapping[str, Stored], dims: Dims, *, quantized: bool = False) -> dict[str, Stored]:
    """Of the weights that a source has under MLX's names those that belong to a Whisper of these sizes, in order.

    `quantized`: some layers are packed. Raises ValueError where one is missing or misshapen, where there are blocks
    that the sizes know nothing of, or where the encoder's positions, which MLX computes, are other ones.
    """
    if (positions := named.get("encoder.positional_embedding")) is not None:
        _expect_sinusoids(positions)
    found: dict[str, Stored] = {}
    for name, shape in expected_shapes(dims).items():
        packed = _packed(name, named) if quantized else {}
        found |= packed or {name: _fitting(name, named, shape)}
    if extra := [name for name in named if name not in found and ".blocks." in name]:
        raise ValueError(f"holds {extra[0]}, a layer that its sizes do not have")
    return found


def _fitting(name: str, named: Mapping[str, Stored], shape: tuple[int, ...]) -> Stored:
    if name not in named:
        raise ValueError(f"lacks the weight {name}")
    if named[name].shape != shape:
        raise ValueError(f"{name} has shape {list(named[name].shape)}, {list(shape)} is needed")
    return named[name]


def _packed(name: str, named: Mapping[str, Stored]) -> dict[str, Stored]:
    """A packed layer's weight, scales and offsets; nothing of a plain one."""
    layer = name.removesuffix(".weight")
    if layer == name or f"{layer}.scales" not in named:
        return {}
    return {layer + part: named[layer + part] for part in PACKED if layer + part in named}


def convolution(weight: Stored) -> Stored:
    """[out, in, kernel], as PyTorch and CTranslate2 have it, to MLX's [out, kernel, in]."""
    if len(weight.shape) != 3:
        raise ValueError(f"a convolution of shape {list(weight.shape)}")
    return weight.transposed(0, 2, 1)


def _expect_sinusoids(positions: Stored) -> None:
    """MLX computes the encoder's positions, so dropping the stored ones is right only if they are the same."""
    # A bfloat16 below 1 is off by up to 0.002.
    if len(positions.shape) != 2 or not np.allclose(positions.floats(), sinusoids(*positions.shape), atol=2e-3):
        raise ValueError("the encoder's positions are not Whisper's sinusoids")


def sinusoids(length: int, channels: int, max_timescale: float = 10_000.0) -> NDArray[np.float64]:
    """Sinusoidal positions [length, channels]: sines in the first half, cosines in the second.

    Vaswani et al. 2017, section 3.5, with the timescales spaced as in OpenAI's Whisper.
    """
    half = channels // 2
    rates = np.exp(-np.log(max_timescale) / (half - 1) * np.arange(half))
    angles = np.arange(length)[:, None] * rates[None, :]
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def openai_name(name: str) -> str:
    """MLX's name of a weight that OpenAI's checkpoints have: those, but for a block's two layers of its `mlp`."""
    return re.sub(r"\.mlp\.([02])\.", lambda match: ".mlp1." if match[1] == "0" else ".mlp2.", name)
