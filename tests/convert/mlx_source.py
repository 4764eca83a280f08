"""A directory in MLX's layout as a Checkpoint, each weight read by its place in the file: for tests of the writer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from mlxbatch.convert.checkpoint import Checkpoint, Origin, Weight
from mlxbatch.models.architecture import architecture, quantization
from mlxbatch.models.weights import weight_files

NUMPY = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "U32": np.uint32, "U8": np.uint8, "F64": np.float64}


@contextmanager
def open_mlx(name: str, **_: Any) -> Iterator[Checkpoint]:
    """In the form of sources.open_source."""
    yield checkpoint_of(Path(name))


def checkpoint_of(directory: Path) -> Checkpoint:
    config = json.loads((directory / "config.json").read_text("utf-8"))
    weights = {name: weight for file in weight_files(directory) for name, weight in _weights(file)}
    matrices = (name for name, weight in weights.items() if name.endswith(".weight") and len(weight.shape) == 2)
    return Checkpoint(
        architecture(config),
        "transcribe",
        config,
        weights,
        frozenset(name.removesuffix(".weight") for name in matrices),
        {path.name: path for path in directory.iterdir() if path.suffix in (".json", ".txt")},
        Origin(str(directory)),
        quantized=quantization(config) is not None,
    )


def head(path: Path) -> tuple[dict[str, Any], int]:
    """A safetensors file's header, and the byte where its numbers begin; by the published format, not by our writer."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        return json.loads(file.read(length)), 8 + length


def _weights(path: Path) -> Iterator[tuple[str, Weight]]:
    entries, begin = head(path)
    for name, entry in entries.items():
        if name != "__metadata__":
            shape, kind = tuple(entry["shape"]), entry["dtype"]
            yield name, Weight(shape, kind, partial(_read, path, begin + entry["data_offsets"][0], shape, kind))


def _read(path: Path, at: int, shape: tuple[int, ...], kind: str) -> mx.array:
    with path.open("rb") as file:
        file.seek(at)
        numbers = np.fromfile(file, NUMPY[kind], int(np.prod(shape))).reshape(shape)
    array = mx.array(numbers)
    return array.view(mx.bfloat16) if kind == "BF16" else array
