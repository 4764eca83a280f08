"""The weight files of a model directory, and the shapes in them, without reading a weight."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from safetensors import SafetensorError, safe_open

from mlxbatch.errors import SetupError, show

Shape = tuple[int, ...]
# Bytes of a number, by safetensors' name of its type.
_BYTES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2}
_FLOATS = ("F64", "F32", "F16", "BF16")

INDEX = "model.safetensors.index.json"
AGAIN = "the download was cut short or the file is damaged: fetch the model again"


def weight_files(directory: Path) -> tuple[Path, ...]:
    """The *.safetensors that make up the model, in order.

    `model.safetensors` wins over the shards of an index, those over `weights.safetensors` (mlx-examples' name), and
    any other names come last; so a leftover beside the model is not loaded with it.

    Raises SetupError where there are none or a shard is missing.
    """
    if (single := directory / "model.safetensors").exists():
        return (single,)
    if (index := directory / INDEX).exists():
        return _shards(index)
    if (single := directory / "weights.safetensors").exists():
        return (single,)
    if others := sorted(directory.glob("*.safetensors")):
        return tuple(others)
    raise SetupError(_no_weights(directory))


def _no_weights(directory: Path) -> str:
    if archives := sorted(directory.glob("*.npz")):
        remedy = "convert it to model.safetensors, or name a model that has one"
        return f"{show(archives[0])}: weights in NumPy's format are not read; {remedy}"
    return f"{show(directory)}: no *.safetensors in it; a model directory holds config.json, weights and tokenizer.json"


def _shards(index: Path) -> tuple[Path, ...]:
    try:
        names = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
        shards = tuple(index.parent / name for name in names)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SetupError(f"{show(index)}: no index of safetensors shards; {AGAIN}") from error
    if missing := [shard for shard in shards if not shard.exists()]:
        raise SetupError(f"{show(missing[0])}: the shard is missing ({_of(missing, shards)}); fetch the model again")
    return shards


def _of(missing: list[Path], shards: tuple[Path, ...]) -> str:
    return f"{len(missing)} of {len(shards)} are"


def shapes(path: Path) -> Iterator[tuple[str, Shape]]:
    """Name and shape of every weight in one safetensors file, from its header alone.

    Raises SetupError for a file that is unreadable, truncated or something else.
    """
    for name, shape, _ in _headers(path):
        yield name, shape


def loaded_bytes(files: Sequence[Path], dtype: str) -> int:
    """Bytes that the weights in these files take once their floating-point numbers are of `dtype` ("float16").

    Known from the headers. Packed weights of quantized layers are whole numbers, and stay what they are.
    Raises SetupError as `shapes` does.
    """
    wanted = 4 if dtype == "float32" else 2
    stored = [(shape, kind) for path in files for _, shape, kind in _headers(path)]
    return sum(math.prod(shape) * (wanted if kind in _FLOATS else _BYTES.get(kind, 1)) for shape, kind in stored)


def _headers(path: Path) -> Iterator[tuple[str, Shape, str]]:
    """Name, shape and type of every weight in one file."""
    try:
        with safe_open(path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118 (not a dict: it can't be iterated)
                one = file.get_slice(name)
                yield name, tuple(one.get_shape()), one.get_dtype()
    except SafetensorError as error:
        raise SetupError(f"{show(path)}: no readable safetensors file ({error}); {AGAIN}") from error
    except OSError as error:
        raise SetupError(f"{show(path)}: {error.strerror or error}") from error
