"""Reader of CTranslate2's binary model format, version 6, as its `ModelSpec.save` writes it.

All integers are little-endian. A string is its length (uint16, the closing NUL counted) and its bytes.

    uint32 version, string spec, uint32 revision
    uint32 count, then per variable: string name, uint8 rank, uint32 dims[rank], uint8 type, uint32 bytes, data
    uint32 count, then per alias: string alias, string variable
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

VERSION = 6
_MAX_RANK = 8
_TYPES: dict[int, np.dtype[Any]] = {
    0: np.dtype("<f4"),
    1: np.dtype("i1"),
    2: np.dtype("<i2"),
    3: np.dtype("<i4"),
    4: np.dtype("<f2"),
}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A CTranslate2 model file: its variables by name, views into the mapped file, and names for the same data."""

    spec: str
    revision: int
    variables: dict[str, NDArray[Any]]
    aliases: dict[str, str]


def read_ctranslate2(path: Path) -> Checkpoint:
    """Map the file; no weight is read before it is used.

    Raises ValueError that says what is wrong (another format, another version, short, corrupt), OSError if unreadable.
    """
    if path.stat().st_size == 0:
        raise ValueError("the file is empty")
    cursor = _Cursor(np.memmap(path, dtype=np.uint8, mode="r"))
    version = cursor.number("I")
    if version != VERSION:
        raise ValueError(f"no CTranslate2 model of version {VERSION} (its first word is {version})")
    spec, revision = cursor.string(), cursor.number("I")
    variables = dict(cursor.variable() for _ in range(cursor.number("I")))
    aliases = {cursor.string(): cursor.string() for _ in range(cursor.number("I"))}
    cursor.expect_end()
    return Checkpoint(spec, revision, variables, aliases)


class _Cursor:
    """A place in the file that moves on with each thing read."""

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> NDArray[np.uint8]:
        end = self.at + size
        if end > len(self.data):
            raise ValueError(f"the file ends early: {len(self.data)} bytes, at least {end} are needed")
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def number(self, kind: str) -> int:
        (value,) = struct.unpack(f"<{kind}", self.take(struct.calcsize(f"<{kind}")).tobytes())
        return int(value)

    def string(self) -> str:
        raw = self.take(self.number("H")).tobytes()
        if not raw.endswith(b"\0"):
            raise ValueError(f"corrupt: no string at byte {self.at - len(raw)}")
        try:
            return raw[:-1].decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"corrupt: no string at byte {self.at - len(raw)}") from error

    def variable(self) -> tuple[str, NDArray[Any]]:
        name, rank = self.string(), self.number("B")
        if rank > _MAX_RANK:
            raise ValueError(f"corrupt: {name!r} has {rank} dimensions")
        shape = [self.number("I") for _ in range(rank)]
        type_id, size = self.number("B"), self.number("I")
        if type_id not in _TYPES:
            raise ValueError(f"{name!r} has the unknown data type {type_id}")
        dtype = _TYPES[type_id]
        if math.prod(shape) * dtype.itemsize != size:
            raise ValueError(f"corrupt: {name!r} of shape {shape} and type {dtype} cannot take {size} bytes")
        return name, self.take(size).view(dtype).reshape(shape)

    def expect_end(self) -> None:
        if self.at != len(self.data):
            raise ValueError(f"corrupt: {len(self.data) - self.at} bytes follow the model")
