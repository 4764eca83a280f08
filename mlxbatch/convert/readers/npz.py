"""Read NumPy's archives of arrays, .npz: a zip of .npy files, one at a time and never a pickle."""

from __future__ import annotations

import zipfile
import zlib
from typing import Any

import numpy as np

from mlxbatch.convert.readers.stored import NUMPY, Array, Stored
from mlxbatch.errors import SetupError, show
from mlxbatch.models.weights import npy_header

# What can be wrong with a zip's member: the archive, the compression, the array in it.
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, OSError)
_KINDS = {dtype: kind for kind, dtype in NUMPY.items() if kind != "BF16"}
_KINDS[np.dtype("V2")] = "BF16"  # so MLX writes it, as two bytes that say nothing


def read_npz(archive: zipfile.ZipFile) -> dict[str, Stored]:
    """Every array by its name. ValueError that says what is wrong."""
    return {member.removesuffix(".npy"): _stored(archive, member) for member in archive.namelist()}


def _stored(archive: zipfile.ZipFile, member: str) -> Stored:
    try:
        with archive.open(member) as file:
            shape, _, dtype = npy_header(file)
    except BROKEN as error:
        raise ValueError(f"{member}: no array in NumPy's format ({error})") from error
    if dtype not in _KINDS:
        raise ValueError(f"{member} holds {_what(dtype)}, no weights")
    kind = _KINDS[dtype]

    def read() -> Array:
        try:
            with archive.open(member) as file:
                array = np.lib.format.read_array(file, allow_pickle=False)
                _to_the_end(file)
        except BROKEN as error:
            raise SetupError(f"{show(str(archive.filename))}: {member}: {error}") from error
        return array.view(NUMPY[kind])

    return Stored(tuple(shape), kind, read)


def _to_the_end(file: Any) -> None:
    """The archive's checksum is compared at a member's end."""
    if file.read(1):
        raise ValueError("more follows the array")


def _what(dtype: np.dtype[Any]) -> str:
    return "Python objects" if dtype.hasobject else f"numbers of type {dtype}"
