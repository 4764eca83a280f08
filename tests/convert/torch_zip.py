"""Writer of PyTorch's checkpoints without PyTorch: the zip, and a pickle put together from its instructions.

The instructions are those that `torch.save` leaves of a state dict: an OrderedDict with the attribute `_metadata`, each
tensor a call over a storage's persistent id, names that come again taken from the memo.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

STORAGES = {"float32": "FloatStorage", "float16": "HalfStorage", "int64": "LongStorage", "uint16": "BFloat16Storage"}
ORDERED = b"ccollections\nOrderedDict\n"


def write_torch(path: Path, saved: Mapping[str, Any], **records: bytes) -> Path:
    """`saved` as torch.save writes it: dicts, texts, whole numbers and arrays (uint16: bits of bfloat16)."""
    pickle = TorchPickle()
    program = b"\x80\x02" + pickle.value(saved) + b"."
    return write_zip(path, {"data.pkl": program, "version": b"3\n", **pickle.records, **records})


def write_zip(path: Path, records: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in records.items():
            archive.writestr(f"{path.stem}/{name}", content)
    return path


class TorchPickle:
    """Instructions for values; the numbers of arrays are in `records`."""

    def __init__(self) -> None:
        self.records: dict[str, bytes] = {}
        self._memo: dict[bytes, int] = {}

    def value(self, value: Any) -> bytes:
        if isinstance(value, np.ndarray):
            return self._tensor(value)
        if isinstance(value, Mapping):
            return self._dict(value)
        if isinstance(value, tuple):
            return b"(" + b"".join(map(self.value, value)) + b"t"
        return self._remembered(_text(value)) if isinstance(value, str) else b"J" + struct.pack("<i", value)

    # Written down in the order of the instructions, in which the memo fills.

    def _dict(self, value: Mapping[str, Any]) -> bytes:
        out = self._remembered(ORDERED) + b")R("
        for key, one in value.items():
            out += self.value(key) + self.value(one)
        return out + b"u}" + self.value("_metadata") + self._remembered(ORDERED) + b")Rsb"

    def _tensor(self, array: NDArray[Any]) -> bytes:
        """Its strides are kept, so that a transposed array is a view of numbers in another order."""
        key, base = str(len(self.records)), array.base if isinstance(array.base, np.ndarray) else array
        self.records[f"data/{key}"] = base.tobytes()
        out = self._remembered(b"ctorch._utils\n_rebuild_tensor_v2\n") + b"((" + self.value("storage")
        out += self._remembered(b"ctorch\n" + STORAGES[array.dtype.name].encode() + b"\n")
        out += self.value(key) + self.value("cpu") + self.value(base.size) + b"tQ" + self.value(0)
        strides = tuple(step // array.itemsize for step in array.strides)
        return out + self.value(array.shape) + self.value(strides) + b"\x89" + self._remembered(ORDERED) + b")RtR"

    def _remembered(self, instruction: bytes) -> bytes:
        if instruction in self._memo:
            return b"h" + bytes([self._memo[instruction]])
        place = len(self._memo)
        if place > 255:
            return instruction
        self._memo[instruction] = place
        return instruction + b"q" + bytes([place])


def _text(text: str) -> bytes:
    raw = text.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw
