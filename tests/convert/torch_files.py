"""PyTorch files of the kind before 1.6, made without PyTorch: the pickles that its own code would have written."""

from __future__ import annotations

import pickle
import struct
import sys
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray


class FloatStorage:
    """What pickles name a storage of float32 by."""


FloatStorage.__module__ = "torch"


def _rebuild_tensor_v2(*_: Any) -> None:
    """What pickles rebuild a tensor with; here it is only named."""


_rebuild_tensor_v2.__module__ = "torch._utils"


class Tensor:
    """Pickled as PyTorch pickles a tensor that views a storage of its own."""

    def __init__(self, values: NDArray[np.float32], key: str) -> None:
        self.values, self.key = values, key

    def __reduce__(self) -> Any:
        steps = tuple(step // 4 for step in self.values.strides)
        storage = _Persistent(self.key, self.values.size)
        return _rebuild_tensor_v2, (storage, 0, self.values.shape, steps, False, OrderedDict())


class _Persistent:
    def __init__(self, key: str, count: int) -> None:
        self.key, self.count = key, count


class _Pickler(pickle.Pickler):
    def persistent_id(self, one: Any) -> Any:
        if isinstance(one, _Persistent):
            return ("storage", FloatStorage, one.key, "cpu", one.count, None)
        return None


@contextmanager
def _modules() -> Iterator[None]:
    """The names exist while they are pickled, in modules that are then gone again."""
    torch, inner = ModuleType("torch"), ModuleType("torch._utils")
    vars(torch)["FloatStorage"], vars(inner)["_rebuild_tensor_v2"] = FloatStorage, _rebuild_tensor_v2
    before = {name: sys.modules.get(name) for name in ("torch", "torch._utils")}
    sys.modules.update({"torch": torch, "torch._utils": inner})
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def legacy_file(saved: dict[str, Any], path: Path) -> Path:
    """Arrays anywhere in `saved` become tensors, in their own order in memory."""
    kept: list[Tensor] = []

    def prepared(value: Any) -> Any:
        if isinstance(value, dict):
            return OrderedDict((name, prepared(one)) for name, one in value.items())
        if isinstance(value, np.ndarray):
            kept.append(Tensor(value, f"key{len(kept)}"))
            return kept[-1]
        return value

    data = BytesIO()
    with _modules():
        body = prepared(saved)
        for part in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}, body, [one.key for one in kept]):
            _Pickler(data, protocol=2).dump(part)
    for one in kept:
        data.write(struct.pack("<q", one.values.size) + one.values.tobytes("A"))
    path.write_bytes(data.getvalue())
    return path
