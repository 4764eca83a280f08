"""The weight files of a model directory, and the shapes in them, without reading a weight."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from safetensors import SafetensorError, safe_open

from mlxbatch.errors import SetupError, show

Shape = tuple[int, ...]
Header = tuple[Shape, str]
"""A weight's shape, and its type by safetensors' name."""
# Bytes of a number on the device, by the names that profiles have for it.
DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
# Weights that share a scale and an offset where a model is quantized here: MLX's own default.
GROUP = 64
# Bytes of a number, by safetensors' name of its type.
KIND_BYTES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2}
FLOATS = ("F64", "F32", "F16", "BF16")

# How the files of settings and tokenizers end, beside the weights.
SETTINGS = (".json", ".jsonl", ".txt", ".model", ".mvn", ".tiktoken", ".jinja", ".vocab", ".yaml")
INDEX = "model.safetensors.index.json"
WHOLE = "fetch the model again, or a whole one"
AGAIN = "the download was cut short or the file is damaged: fetch the model again"


def weight_files(directory: Path) -> tuple[Path, ...]:
    """The files that make up the model's weights, in order.

    `model.safetensors` wins over the shards of an index, those over `weights.safetensors` and any other safetensors,
    and these over the `weights.npz` of the first conversions for MLX; so a leftover beside the model is not loaded
    with it.

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
    if (archive := directory / "weights.npz").exists():
        return (archive,)
    raise SetupError(_no_weights(directory))


def _no_weights(directory: Path) -> str:
    if archives := sorted(directory.glob("*.npz")):
        return f"{show(archives[0])}: of weights in NumPy's format only those named weights.npz are read; rename it"
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
    """Name and shape of every weight in one file, safetensors or npz, from the headers alone.

    Raises SetupError for a file that is unreadable, truncated or something else.
    """
    for name, shape, _ in _headers(path):
        yield name, shape


def headers(files: Sequence[Path]) -> dict[str, Header]:
    """Shape and type ("F16", "U32") of every weight in these files, by name. Raises SetupError as `shapes` does."""
    return {name: (shape, kind) for path in files for name, shape, kind in _headers(path)}


def loaded_bytes(files: Sequence[Path], dtype: str) -> int:
    """Bytes that plain weights in these files take in `dtype`. Raises SetupError as `shapes` does."""
    return resident_bytes(headers(files), dtype)


def resident_bytes(
    stored: Mapping[str, Header],
    dtype: str,
    bits: int | None = None,
    packed: Mapping[str, Any] | None = None,
    *,
    plain: bool = False,
) -> int:
    """Bytes that stored weights take on the device once their floating-point numbers are of `dtype` ("float16").

    `packed` is how they are quantized in the files (`architecture.quantization`); where they are not, `bits` is what
    matrices are brought to on loading, in groups with a scale and an offset each. `plain`: quantized layers become
    plain ones in either case, as they do on a CPU.
    """
    size = DTYPE_BYTES[dtype]
    layers = {name.removesuffix(".scales") for name in stored if name.endswith(".scales")} if packed else set()

    def one(name: str, shape: Shape, kind: str) -> float:
        numbers = math.prod(shape)
        layer, _, part = name.rpartition(".")
        if packed and plain and layer in layers and part in ("weight", "scales", "biases"):
            own = packed.get(layer)
            group = (own if isinstance(own, Mapping) else packed).get("group_size", packed["group_size"])
            return numbers * group * size if part == "scales" else 0
        if kind not in FLOATS:
            return numbers * KIND_BYTES.get(kind, 1)
        if bits and not packed and not plain and part == "weight" and len(shape) == 2 and shape[1] % GROUP == 0:
            return numbers * (bits / 8 + 2 * size / GROUP)
        return numbers * size

    return int(sum(one(name, *header) for name, header in stored.items()))


def _headers(path: Path) -> Iterator[tuple[str, Shape, str]]:
    """Name, shape and type of every weight in one file."""
    try:
        yield from _npz_headers(path) if path.suffix == ".npz" else _safetensors_headers(path)
    except (SafetensorError, zipfile.BadZipFile, ValueError, EOFError) as error:
        raise SetupError(f"{show(path)}: no readable {path.suffix[1:]} file ({error}); {AGAIN}") from error
    except OSError as error:
        raise SetupError(f"{show(path)}: {error.strerror or error}") from error


def _safetensors_headers(path: Path) -> Iterator[tuple[str, Shape, str]]:
    with safe_open(path, framework="numpy") as file:
        for name in file.keys():  # noqa: SIM118 (not a dict: it can't be iterated)
            one = file.get_slice(name)
            yield name, tuple(one.get_shape()), one.get_dtype()


def _npz_headers(path: Path) -> Iterator[tuple[str, Shape, str]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            with archive.open(member) as file:
                shape, _, kind = npy_header(file)
            if kind.hasobject:
                raise ValueError(f"{member} holds Python objects")
            # NumPy says f2 or u4 where safetensors says F16 or U32.
            yield member.removesuffix(".npy"), shape, f"{kind.kind.upper()}{8 * kind.itemsize}"


def npy_header(file: IO[bytes]) -> tuple[Shape, bool, np.dtype[Any]]:
    """Shape, order and type of the array that an open .npy file begins with. ValueError where it is none."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(file)
