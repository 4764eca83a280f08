"""Read a PyTorch checkpoint of the kind before 1.6: pickles one after another, taken as data, then the numbers.

The pickles are a magic number, the version, the sizes of types, what was saved, and the keys of its storages; then
comes each storage, the count of its numbers as int64 and the numbers (torch/serialization.py, `_legacy_save`).
"""

from __future__ import annotations

import pickletools
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from mlxbatch.convert.readers.state_pickle import Storage, Tensor, read_state
from mlxbatch.convert.readers.stored import NUMPY, Array, Stored

MAGIC, VERSION = 0x1950A86A20F9469CFC6C, 1001


def read_torch_legacy(path: Path) -> Any:
    """What was saved: dicts and lists as they were, each tensor in them a Stored. ValueError says what is wrong."""
    storages: dict[str, Storage] = {}
    places: dict[str, int] = {}

    def found(tensor: Tensor) -> Stored:
        storages[tensor.storage.key] = tensor.storage
        return Stored(tensor.shape, tensor.storage.kind, lambda: _numbers(path, places[tensor.storage.key], tensor))

    with path.open("rb") as file:
        magic, version, _sizes, saved, keys = (read_state(_pickle(file), found) for _ in range(5))
        start = file.tell()
    if (magic, version) != (MAGIC, VERSION) or not isinstance(keys, list):
        raise ValueError("no PyTorch checkpoint of the kind before 1.6")
    places.update(_places(path, start, [_storage(storages, key) for key in keys]))
    return saved


def _pickle(file: IO[bytes]) -> bytes:
    """The bytes of the pickle that begins here; the file is then behind it."""
    start = file.tell()
    try:
        for _ in pickletools.genops(file):
            pass
    except ValueError as error:
        raise ValueError(f"no PyTorch checkpoint of the kind before 1.6, or not a whole one ({error})") from error
    end = file.tell()
    file.seek(start)
    return file.read(end - start)


def _storage(storages: dict[str, Storage], key: Any) -> Storage:
    if key not in storages:
        raise ValueError(f"damaged: its storage {key!r} is of no tensor")
    return storages[key]


def _places(path: Path, start: int, storages: list[Storage]) -> dict[str, int]:
    """At which byte each storage's numbers begin."""
    data = np.memmap(path, np.uint8, mode="r")
    places = {}
    for storage in storages:
        count = int.from_bytes(data[start : start + 8], "little")
        if count != storage.count:
            raise ValueError(f"damaged: a storage of {count} numbers, its pickle tells of {storage.count}")
        places[storage.key] = start + 8
        start += 8 + count * NUMPY[storage.kind].itemsize
    if start > len(data):
        raise ValueError(f"the file ends early: {start} bytes are needed, there are {len(data)}")
    return places


def _numbers(path: Path, place: int, tensor: Tensor) -> Array:
    """That the tensor does not reach beyond its storage was checked when its pickle was read."""
    dtype = NUMPY[tensor.storage.kind]
    storage: NDArray[Any] = np.fromfile(path, dtype, tensor.storage.count, offset=place)
    steps = tuple(stride * dtype.itemsize for stride in tensor.strides)
    return np.lib.stride_tricks.as_strided(storage[tensor.offset :], tensor.shape, steps).copy()
