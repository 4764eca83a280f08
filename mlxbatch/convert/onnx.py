"""Read an ONNX file: the tensors of its graphs and the nodes they go into, with nothing run and no runtime needed.

A file is protobuf messages (protobuf.dev/programming-guides/encoding): a varint of field number and type, then the
value. Only the fields on the way to tensors and nodes are followed (github.com/onnx/onnx, onnx/onnx.proto3).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Field numbers of onnx.proto3.
MODEL_GRAPH = 7
GRAPH_NODE, GRAPH_INITIALIZER = 1, 5
NODE_INPUT, NODE_OUTPUT, NODE_NAME, NODE_OP, NODE_ATTRIBUTE = 1, 2, 3, 4, 5
ATTRIBUTE_TENSOR, ATTRIBUTE_GRAPH = 5, 6
TENSOR_DIMS, TENSOR_TYPE, TENSOR_FLOATS, TENSOR_INTS, TENSOR_NAME, TENSOR_RAW, TENSOR_LOCATION = 1, 2, 4, 5, 8, 9, 14
EXTERNAL = 1  # TensorProto.DataLocation
# By TensorProto.DataType; tensors of other types are counts and shapes, no weights.
_DTYPES: dict[int, np.dtype[Any]] = {1: np.dtype("<f4"), 2: np.dtype("u1"), 3: np.dtype("i1")}

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types

Value = int | memoryview
Stored = NDArray[Any]
"""A tensor as the file has it, float32, uint8 or int8: a view into the file, read when it is used and not before."""
Tensor = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Node:
    """An operation ("Conv"), the exporter's name for it, and the names of what goes in ("": left out) and comes out."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """`tensors` by name, a constant by its node's output. Those of branches (`If`) are among them, and their nodes."""

    tensors: dict[str, Stored]
    nodes: tuple[Node, ...]

    def tensor(self, name: str) -> Stored:
        """ValueError where there is none of that name."""
        if name not in self.tensors:
            raise ValueError(f"the tensor {name} is missing")
        return self.tensors[name]


def read_graph(source: Path | bytes) -> Graph:
    """What a file holds, mapped into memory, or what its bytes do. Raises ValueError for what is no whole ONNX file."""
    data = memoryview(source) if isinstance(source, bytes) else np.memmap(source, np.uint8, mode="r").data
    tensors: dict[str, Stored] = {}
    nodes: list[Node] = []
    try:
        for graph in _messages(data, MODEL_GRAPH):
            _collect(graph, tensors, nodes)
    except (IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"not a whole ONNX file ({error})") from error
    return Graph(tensors, tuple(nodes))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Every float32 tensor by name, as of `read_graph`, copied. Raises ValueError as it does."""
    stored = read_graph(path).tensors
    return {name: values.astype(np.float32) for name, values in stored.items() if values.dtype == np.float32}


def module_path(node: Node) -> str:
    """PyTorch's path of the module that a node was exported from: "/cnn.0/cnn.0.1/Conv" is of "cnn.0.1"."""
    parts: list[str] = []
    for part in node.name.strip("/").split("/")[:-1]:
        if parts and part.startswith(f"{parts[-1]}."):
            parts.pop()
        parts.append(part)
    return ".".join(parts)


def dequantized(stored: Stored, scale: Tensor, zero: Stored, axis: int) -> Tensor:
    """(stored - zero) * scale, as ONNX's DequantizeLinear has it: both are single numbers, or one for each place along
    `axis`. ValueError where they are neither."""

    def along(values: Stored) -> Stored:
        if values.size not in (1, stored.shape[axis]):
            raise ValueError(f"{values.size} scales or zero points for {stored.shape[axis]} rows")
        return values.reshape([-1 if dim == axis else 1 for dim in range(stored.ndim)])

    return (stored.astype(np.int32) - along(zero).astype(np.int32)).astype(np.float32) * along(scale)


def _collect(graph: memoryview, tensors: dict[str, Stored], nodes: list[Node]) -> None:
    for initializer in _messages(graph, GRAPH_INITIALIZER):
        tensors.update(_tensor(initializer, _text(initializer, TENSOR_NAME)))
    for message in _messages(graph, GRAPH_NODE):
        node = _node(message)
        nodes.append(node)
        for attribute in _messages(message, NODE_ATTRIBUTE):
            for tensor in _messages(attribute, ATTRIBUTE_TENSOR):
                tensors.update(_tensor(tensor, node.outputs[0]))
            for inner in _messages(attribute, ATTRIBUTE_GRAPH):
                _collect(inner, tensors, nodes)


def _node(message: memoryview) -> Node:
    inputs, outputs = _texts(message, NODE_INPUT), _texts(message, NODE_OUTPUT)
    return Node(_text(message, NODE_OP), _text(message, NODE_NAME), inputs, outputs)


def _tensor(tensor: memoryview, name: str) -> Iterator[tuple[str, Stored]]:
    """The tensor under its name, if it is of a type that weights have."""
    fields = list(_fields(tensor))
    kinds = [value for number, value in fields if number == TENSOR_TYPE and isinstance(value, int)]
    dtype = _DTYPES.get(kinds[-1]) if kinds else None
    if dtype is None:
        return
    if (TENSOR_LOCATION, EXTERNAL) in fields:
        raise ValueError(f"{name!r} is kept in a file of its own: take a model that is one file")
    shape = [dim for number, value in fields if number == TENSOR_DIMS for dim in _varints(value)]
    data = _bytes(fields)
    if len(data) != dtype.itemsize * math.prod(shape):
        raise ValueError(f"{name!r} of shape {shape} cannot take {len(data)} bytes")
    yield name, np.frombuffer(data, dtype).reshape(shape)


def _bytes(fields: list[tuple[int, Value]]) -> bytes | memoryview:
    """A tensor's values, in whichever of three forms they are: raw bytes, floats, or small integers as varints."""
    stored = [value for number, value in fields if number in (TENSOR_RAW, TENSOR_FLOATS)]
    raw = [value for value in stored if isinstance(value, memoryview)]
    if raw:
        return raw[0] if len(raw) == 1 else b"".join(raw)
    return bytes(one & 0xFF for number, value in fields if number == TENSOR_INTS for one in _varints(value))


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
    return next(iter(_texts(message, field)), "")


def _texts(message: memoryview, field: int) -> tuple[str, ...]:
    return tuple(str(value, "utf-8") for value in _messages(message, field))


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
