"""Read the tensors of an ONNX file: its graphs' initializers and constants, with nothing run and no runtime needed.

A file is protobuf messages (protobuf.dev/programming-guides/encoding): a varint of field number and type, then the
value. Only the fields on the way to a tensor are followed (github.com/onnx/onnx, onnx/onnx.proto3).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Field numbers of onnx.proto3.
MODEL_GRAPH = 7
GRAPH_NODE, GRAPH_INITIALIZER = 1, 5
NODE_OUTPUT, NODE_ATTRIBUTE = 2, 5
ATTRIBUTE_TENSOR, ATTRIBUTE_GRAPH = 5, 6
TENSOR_DIMS, TENSOR_TYPE, TENSOR_FLOATS, TENSOR_NAME, TENSOR_RAW = 1, 2, 4, 8, 9
FLOAT = 1  # TensorProto.DataType; others are counts and shapes, no weights

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types

Value = int | memoryview
Tensor = NDArray[np.float32]


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Every float32 tensor by name, those of branches (`If`) included; a constant goes by its node's output.

    Raises ValueError for what is no whole ONNX file.
    """
    try:
        model = memoryview(path.read_bytes())
        return {name: tensor for graph in _messages(model, MODEL_GRAPH) for name, tensor in _graph(graph)}
    except (IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"not a whole ONNX file ({error})") from error


def _graph(graph: memoryview) -> Iterator[tuple[str, Tensor]]:
    for initializer in _messages(graph, GRAPH_INITIALIZER):
        yield from _tensor(initializer, _text(initializer, TENSOR_NAME))
    for node in _messages(graph, GRAPH_NODE):
        for attribute in _messages(node, NODE_ATTRIBUTE):
            for tensor in _messages(attribute, ATTRIBUTE_TENSOR):
                yield from _tensor(tensor, _text(node, NODE_OUTPUT))
            for inner in _messages(attribute, ATTRIBUTE_GRAPH):
                yield from _graph(inner)


def _tensor(tensor: memoryview, name: str) -> Iterator[tuple[str, Tensor]]:
    """The tensor under its name, if it is one of float32."""
    fields = list(_fields(tensor))
    if (TENSOR_TYPE, FLOAT) not in fields:
        return
    shape = [dim for number, value in fields if number == TENSOR_DIMS for dim in _varints(value)]
    data = b"".join([*_messages(tensor, TENSOR_RAW), *_messages(tensor, TENSOR_FLOATS)])
    if len(data) != 4 * math.prod(shape):
        raise ValueError(f"{name!r} of shape {shape} cannot take {len(data)} bytes")
    yield name, np.frombuffer(data, "<f4").reshape(shape).astype(np.float32)


def _varints(value: Value) -> list[int]:
    """A repeated number: one, or many packed into bytes."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        found.append(number)
    return found


def _messages(message: memoryview, field: int) -> Iterator[memoryview]:
    return (value for number, value in _fields(message) if number == field and isinstance(value, memoryview))


def _text(message: memoryview, field: int) -> str:
    return next((str(value, "utf-8") for value in _messages(message, field)), "")


def _fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        value, at = _value(message, key & 7, at)
        yield key >> 3, value


def _value(message: memoryview, wire: int, at: int) -> tuple[Value, int]:
    if wire == VARINT:
        return _varint(message, at)
    sizes: dict[int, Any] = {FIXED64: 8, FIXED32: 4}
    if wire == BYTES:
        size, at = _varint(message, at)
    elif wire in sizes:
        size = sizes[wire]
    else:
        raise ValueError(f"not an ONNX file: wire type {wire} at byte {at}")
    if at + size > len(message):
        raise ValueError(f"the file ends early: {at + size} bytes are needed, there are {len(message)}")
    return message[at : at + size], at + size


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
