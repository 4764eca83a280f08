"""Read a PyTorch checkpoint (`torch.save` since 1.6): a zip of a pickle, taken as data, and of one record a storage."""

from __future__ import annotations

import math
import zipfile
from typing import Any

import numpy as np

from mlxbatch.convert.readers.npz import BROKEN
from mlxbatch.convert.readers.state_pickle import Refused, Tensor, read_state
from mlxbatch.convert.readers.stored import NUMPY, Array, Stored
from mlxbatch.errors import SetupError, show
from mlxbatch.models.weights import Shape

PICKLE = "data.pkl"
# More than any description of weights; those of whole programs are refused before they fill the memory.
LONGEST_PICKLE = 100_000_000


def read_torch(archive: zipfile.ZipFile) -> Any:
    """What was saved: dicts and lists as they were, each tensor in them a Stored. ValueError says what is wrong."""
    root = _root(archive)
    pickle = _record(archive, f"{root}{PICKLE}", LONGEST_PICKLE)
    return read_state(pickle, lambda tensor: _stored(tensor, archive, f"{root}data/"))


def _root(archive: zipfile.ZipFile) -> str:
    """The folder in the archive that all its records are in, with the slash."""
    names = [name for name in archive.namelist() if name.rpartition("/")[2] == PICKLE]
    if len(names) != 1:
        raise ValueError("no PyTorch checkpoint: a zip without its data.pkl")
    root = names[0].removesuffix(PICKLE)
    if f"{root}constants.pkl" in archive.namelist():
        raise ValueError("a TorchScript program, no checkpoint: save the model's state_dict instead")
    if f"{root}byteorder" in archive.namelist() and _record(archive, f"{root}byteorder", 16) != b"little":
        raise ValueError("written on a big-endian machine, which is not read here")
    return root


def _record(archive: zipfile.ZipFile, name: str, longest: int) -> bytes:
    if archive.getinfo(name).file_size > longest:
        raise ValueError(f"{name} has {archive.getinfo(name).file_size} bytes, more than any weights need")
    try:
        return archive.read(name)
    except BROKEN as error:
        raise ValueError(f"{name}: {error}") from error


def _stored(tensor: Tensor, archive: zipfile.ZipFile, folder: str) -> Stored:
    storage, record = tensor.storage, f"{folder}{tensor.storage.key}"
    dtype = NUMPY[storage.kind]
    try:
        size = archive.getinfo(record).file_size
    except KeyError as error:
        raise Refused(f"damaged: its record {show(record)} is missing") from error
    if size != storage.count * dtype.itemsize:
        raise Refused(f"damaged: {show(record)} has {size} bytes, its pickle tells of {storage.count * dtype.itemsize}")

    def read() -> Array:
        try:
            numbers = np.frombuffer(archive.read(record), dtype)
        except BROKEN as error:
            raise SetupError(f"{show(str(archive.filename))}: {record}: {error}") from error
        return _view(numbers[tensor.offset :], tensor.shape, tensor.strides)

    return Stored(tensor.shape, storage.kind, read)


def _view(numbers: Array, shape: Shape, strides: Shape) -> Array:
    """The tensor in a storage's numbers; that it does not reach beyond them was checked when it was described."""
    if strides == _in_order(shape):
        return numbers[: math.prod(shape)].reshape(shape)
    steps = tuple(stride * numbers.itemsize for stride in strides)
    return np.lib.stride_tricks.as_strided(numbers, shape, steps, writeable=False).copy()


def _in_order(shape: Shape) -> Shape:
    """The strides of numbers that lie one after the other."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
