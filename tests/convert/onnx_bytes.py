"""ONNX files made by hand: messages of protobuf, tensors in each of their forms, nodes and graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int64": 7}


def varint(number: int) -> bytes:
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + varint(number >> 7)


def part(field: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(field << 3) + varint(value)
    return varint(field << 3 | 2) + varint(len(value)) + value


def tensor(values: NDArray[np.generic], name: str = "") -> bytes:
    """As raw bytes."""
    dims = b"".join(part(1, size) for size in values.shape)
    return dims + part(2, TYPES[values.dtype.name]) + part(8, name.encode()) + part(9, values.tobytes())


def constant(name: str, values: NDArray[np.generic]) -> bytes:
    return part(1, part(2, name.encode()) + part(4, b"Constant") + part(5, part(5, tensor(values))))


def node(op: str, name: str, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> bytes:
    named = b"".join(part(1, one.encode()) for one in inputs) + b"".join(part(2, one.encode()) for one in outputs)
    return part(1, named + part(3, name.encode()) + part(4, op.encode()))


def model(tensors: Mapping[str, NDArray[np.generic]], nodes: Sequence[bytes] = ()) -> bytes:
    """A whole file."""
    initializers = b"".join(part(5, tensor(values, name)) for name, values in tensors.items())
    return part(1, 8) + part(7, initializers + b"".join(nodes))
