"""A checkpoint as the converter sees it: weights under MLX's names, each read when it is asked for and not before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import mlx.core as mx

from mlxbatch.convert.origin import Origin as Origin
from mlxbatch.models.weights import Shape
from mlxbatch.types import Task


@dataclass(frozen=True, slots=True)
class Weight:
    """One weight: its shape, its type by safetensors' name ("F16"), and how to get it.

    `read` gives an array that holds no more than this weight, on no stream but the caller's; ValueError or SetupError
    where the file has changed or ends early.
    """

    shape: Shape
    kind: str
    read: Callable[[], mx.array]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model to be converted.

    `architecture` is that of `config` (models.architecture), in MLX's form as it will lie beside the weights. `layers`
    are the paths of those layers that MLX can quantize in this architecture ("decoder.blocks.0.attn.query"); each has
    `<path>.weight` among `weights`. `files` go along by name, as they are or made (tokenizer.json, voices/…).
    `quantized` says that the weights are packed by MLX already.
    """

    architecture: str
    task: Task | Literal["vad", "speaker"]
    config: Mapping[str, Any]
    weights: Mapping[str, Weight]
    layers: frozenset[str]
    files: Mapping[str, bytes | Path]
    origin: Origin
    quantized: bool = False
