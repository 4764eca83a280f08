"""A checkpoint as a model directory that plain mlx-audio loads, at the precision it has."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from mlxbatch.convert.checkpoint import Checkpoint, Weight
from mlxbatch.convert.file_layout import is_turned


def write_directory(checkpoint: Checkpoint, target: Path) -> None:
    """Write config.json, model.safetensors and the files beside them. `target` is made, and must not exist.

    All weights are in memory at once. ValueError as their `read` raises it.
    """
    weights = {name: _in_file(checkpoint.architecture, name, weight) for name, weight in checkpoint.weights.items()}
    target.mkdir(parents=True)
    save_file(weights, target / "model.safetensors", metadata={"format": "mlx"})
    config = json.dumps(checkpoint.config, ensure_ascii=False, indent=1)
    (target / "config.json").write_text(f"{config}\n", "utf-8")
    # safetensors makes its file private to the user; a cache shared by a group needs it like the others.
    shutil.copymode(target / "config.json", target / "model.safetensors")
    _write_files(checkpoint.files, target)


def _in_file(architecture: str, name: str, weight: Weight) -> NDArray[Any]:
    values = np.asarray(weight.read())
    swapped = is_turned(architecture, name, weight.shape, packed=False)
    return np.ascontiguousarray(values.swapaxes(-1, -2)) if swapped else values


def _write_files(files: Mapping[str, bytes | Path], target: Path) -> None:
    for name, content in files.items():
        (target / name).parent.mkdir(exist_ok=True)
        (target / name).write_bytes(content if isinstance(content, bytes) else content.read_bytes())
