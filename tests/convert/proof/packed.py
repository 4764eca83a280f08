"""Whisper directories, packed by MLX, and damaged: what conversions are tried with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx

from mlxbatch.convert.proof.layers import Stored


def pack(
    original: Path,
    target: Path,
    bits: int,
    *,
    own: Mapping[str, int | bool] | None = None,
    damaged: str | None = None,
) -> Path:
    """`original` with all matrices in so many bits, in groups of 64; `own`: those of some layers, False for plain.

    `damaged`: a layer whose matrix is turned upside down first.
    """
    shutil.copytree(original, target, ignore=shutil.ignore_patterns("*.safetensors"))
    stored, weights = Stored(original), {}
    settings: dict[str, Any] = {"group_size": 64, "bits": bits, "mode": "affine"}
    for name in stored.names():
        layer, _, part = name.rpartition(".")
        array = stored.take(name).astype(mx.float16)
        if layer == damaged and part == "weight":
            array = array[::-1]
        width = (own or {}).get(layer, bits)
        if part != "weight" or array.ndim != 2 or width is False:
            weights[name] = array
            settings |= {layer: False} if part == "weight" and array.ndim == 2 else {}
            continue
        packed, scales, biases = mx.quantize(array, 64, int(width))
        weights |= {name: packed, f"{layer}.scales": scales, f"{layer}.biases": biases}
        settings |= {layer: {"group_size": 64, "bits": width}} if width != bits else {}
    mx.save_safetensors(str(target / "model.safetensors"), weights)
    config = json.loads((target / "config.json").read_text("utf-8"))
    (target / "config.json").write_text(json.dumps({**config, "quantization": settings}))
    return target
