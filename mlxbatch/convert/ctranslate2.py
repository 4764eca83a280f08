"""Reader of CTranslate2's binary model format, version 6, as its `ModelSpec.save` writes it.

All integers are little-endian. A string is its length (uint16, the closing NUL counted) and its bytes.

    uint32 version, string spec, uint32 revision
    uint32 count, then per variable: string name, uint8 rank, uint32 dims[rank], uint8 type, uint32 bytes, data
    uint32 count, then per alias: string alias, string variable

A quantized matrix has beside it a variable `<name>_scale` of float32: one for each row of int8, one alone for int16.
Its numbers are the integers divided by that (`LayerSpec._quantize` multiplies).
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

import numpy as np

from mlxbatch.convert.readers.ranges import Ranges
from mlxbatch.convert.readers.stored import FLOATS, NUMPY, Array, Stored

VERSION = 6
_MAX_RANK = 8
_KINDS = ("F32", "I8", "I16", "I32", "F16", "BF16")


@dataclass(frozen=True, slots=True)
class Variables:
    """What a CTranslate2 model file holds: its variables by name, and other names for some of them."""

    spec: str
    revision: int
    stored: dict[str, Stored]
    aliases: dict[str, str]

    def weight(self, name: str) -> Stored:
        """A variable of floating-point numbers; of a quantized one those it stands for, as float16.

        Eight bits, and the ten of int16, fit into float16's eleven. Raises ValueError where there is no such variable,
        or it is quantized in a way that is not CTranslate2's own.
        """
        name = self.aliases.get(name, name)
        if name not in self.stored:
            raise ValueError(f"variable {name!r} is missing")
        variable = self.stored[name]
        return variable if variable.kind in FLOATS else self._dequantized(name, variable)

    def _dequantized(self, name: str, variable: Stored) -> Stored:
        scale = self.stored.get(self.aliases.get(f"{name}_scale", f"{name}_scale"))
        if scale is None or variable.kind not in ("I8", "I16") or f"{name}_zero" in self.stored:
            raise ValueError(f"{name!r} is quantized ({variable.kind}) in a way that is not read")
        rows = variable.shape[0] if variable.shape else 0
        if math.prod(scale.shape) not in (1, rows):
            raise ValueError(f"{name!r} has {rows} rows and {math.prod(scale.shape)} scales")

        def read() -> Array:
            integers = variable.read().astype(np.float32)
            by_row = (-1,) + (1,) * (integers.ndim - 1)
            return (integers / scale.floats().reshape(by_row)).astype(np.float16)

        return Stored(variable.shape, "F16", read)


def read_ctranslate2(file: Ranges) -> Variables:
    """All names, shapes and types; no weight is read before it is asked for.

    Raises ValueError that says what is wrong (another format, another version, short, corrupt).
    """
    if file.size == 0:
        raise ValueError("the file is empty")
    cursor = _Cursor(file)
    version = cursor.number("I")
    if version != VERSION:
        raise ValueError(f"no CTranslate2 model of version {VERSION} (its first word is {version})")
    spec, revision = cursor.string(), cursor.number("I")
    stored = dict(cursor.variable() for _ in range(cursor.number("I")))
    aliases = {cursor.string(): cursor.string() for _ in range(cursor.number("I"))}
    cursor.expect_end()
    return Variables(spec, revision, stored, aliases)


class _Cursor:
    """A place in the file that moves on with each thing read."""

    def __init__(self, file: Ranges) -> None:
        self.file, self.at = file, 0

    def skip(self, size: int) -> int:
        """Move on by so many bytes; where they begin."""
        begin, end = self.at, self.at + size
        if end > self.file.size:
            raise ValueError(f"the file ends early: {self.file.size} bytes, at least {end} are needed")
        self.at = end
        return begin

    def take(self, size: int) -> bytes:
        return self.file.read(self.skip(size), size)

    def number(self, kind: str) -> int:
        (value,) = struct.unpack(f"<{kind}", self.take(struct.calcsize(f"<{kind}")))
        return int(value)

    def string(self) -> str:
        raw = self.take(self.number("H"))
        if not raw.endswith(b"\0"):
            raise ValueError(f"corrupt: no string at byte {self.at - len(raw)}")
        try:
            return raw[:-1].decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"corrupt: no string at byte {self.at - len(raw)}") from error

    def variable(self) -> tuple[str, Stored]:
        name, rank = self.string(), self.number("B")
        if rank > _MAX_RANK:
            raise ValueError(f"corrupt: {name!r} has {rank} dimensions")
        shape = tuple(self.number("I") for _ in range(rank))
        type_id, size = self.number("B"), self.number("I")
        if type_id >= len(_KINDS):
            raise ValueError(f"{name!r} has the unknown data type {type_id}")
        kind = _KINDS[type_id]
        if math.prod(shape) * NUMPY[kind].itemsize != size:
            raise ValueError(f"corrupt: {name!r} of shape {list(shape)} and type {kind} cannot take {size} bytes")
        return name, self._stored(self.skip(size), size, shape, kind)

    def _stored(self, at: int, size: int, shape: tuple[int, ...], kind: str) -> Stored:
        def read() -> Array:
            return np.frombuffer(self.file.read(at, size), NUMPY[kind]).reshape(shape)

        return Stored(shape, kind, read)

    def expect_end(self) -> None:
        if self.at != self.file.size:
            raise ValueError(f"corrupt: {self.file.size - self.at} bytes follow the model")
