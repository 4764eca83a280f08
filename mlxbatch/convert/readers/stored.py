"""A weight as it lies in a file: its shape, its type, and its numbers when they are asked for. No MLX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlxbatch.models.weights import Shape

Array = NDArray[Any]

# NumPy's types by safetensors' names. NumPy has no bfloat16: those come as their bits.
NUMPY: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
FLOATS = frozenset({"F64", "F32", "F16", "BF16"})


@dataclass(frozen=True, slots=True)
class Stored:
    """`kind` is safetensors' name of the type; `read` gives the numbers in NUMPY's type for it ("BF16" as bits).

    It raises SetupError where the file has changed or ends early.
    """

    shape: Shape
    kind: str
    read: Callable[[], Array]

    def transposed(self, *axes: int) -> Stored:
        shape = tuple(self.shape[axis] for axis in axes)
        return Stored(shape, self.kind, lambda: np.ascontiguousarray(self.read().transpose(axes)))

    def part(self, number: int, of: int) -> Stored:
        """One of equally many rows each, of matrices that were stacked."""
        rows = self.shape[0] // of
        return Stored((rows, *self.shape[1:]), self.kind, lambda: self.read()[number * rows : (number + 1) * rows])

    def floats(self) -> NDArray[np.float32]:
        """Its numbers as float32, whatever the type."""
        values = self.read()
        if self.kind == "BF16":  # the upper half of a float32
            return (values.astype(np.uint32) << 16).view(np.float32)
        return values.astype(np.float32)
