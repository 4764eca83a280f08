"""Read a safetensors file (github.com/huggingface/safetensors, its "Format") by its header, a weight at a time.

uint64 size of the header, little-endian
JSON header: {"name": {"dtype": "F16", "shape": [2, 3], "data_offsets": [begin, end]}, ..., "__metadata__": {...}}
the weights' bytes, to which the offsets count; together they fill it, without overlaps or gaps
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from mlxbatch.convert.readers.ranges import Ranges
from mlxbatch.convert.readers.stored import NUMPY, Array, Stored

# The format's own limit, so that a wrong first word does not fill the memory.
LONGEST_HEADER = 100_000_000
SIZE_BYTES = 8


def read_safetensors(file: Ranges) -> dict[str, Stored]:
    """Every weight by its name. ValueError that says what is wrong with the header or the file's length."""
    entries, start = _header(file)
    end = 0
    stored: dict[str, Stored] = {}
    for begin, stop, name, shape, kind in sorted(_entry(name, entry) for name, entry in entries.items()):
        if begin != end:
            raise ValueError(f"damaged: {name!r} begins at byte {begin} of the weights, the one before ends at {end}")
        end = stop
        stored[name] = _stored(file, start + begin, shape, kind)
    if start + end != file.size:
        raise ValueError(f"its header tells of {start + end} bytes, the file has {file.size}")
    return stored


def _header(file: Ranges) -> tuple[dict[str, Any], int]:
    """The weights' entries, and where in the file the bytes begin to which their offsets count."""
    if file.size < SIZE_BYTES:
        raise ValueError(f"no safetensors file: {file.size} bytes long")
    size = int.from_bytes(file.read(0, SIZE_BYTES), "little")
    if size > min(LONGEST_HEADER, file.size - SIZE_BYTES):
        raise ValueError(f"no safetensors file, or cut short: a header of {size} bytes in {file.size}")
    try:
        entries = json.loads(file.read(SIZE_BYTES, size), object_pairs_hook=_once)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError("no safetensors file: its header is not JSON") from error
    if not isinstance(entries, dict):
        raise ValueError("no safetensors file: its header is no JSON object")
    entries.pop("__metadata__", None)
    return entries, SIZE_BYTES + size


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A name that is there twice could mean one weight to a checker and another to a loader."""
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("damaged: its header names a weight twice")
    return entries


def _entry(name: str, entry: Any) -> tuple[int, int, str, tuple[int, ...], str]:
    try:
        kind, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        whole = all(type(number) is int and number >= 0 for number in (*shape, begin, end))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"damaged: no entry of a weight under {name!r}") from error
    if not whole:
        raise ValueError(f"damaged: {name!r} has shape {shape} and offsets {begin} to {end}")
    if kind not in NUMPY:
        raise ValueError(f"{name!r} is of type {kind!r}, which is not converted")
    if end - begin != math.prod(shape) * NUMPY[kind].itemsize:
        raise ValueError(f"damaged: {name!r} of shape {shape} and type {kind} cannot take {end - begin} bytes")
    return begin, end, name, tuple(shape), kind


def _stored(file: Ranges, at: int, shape: tuple[int, ...], kind: str) -> Stored:
    def read() -> Array:
        size = math.prod(shape) * NUMPY[kind].itemsize
        return np.frombuffer(file.read(at, size), NUMPY[kind]).reshape(shape)

    return Stored(shape, kind, read)
