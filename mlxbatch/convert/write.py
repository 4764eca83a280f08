"""A checkpoint brought to its precision and written, weight by weight: memory holds one of them, whatever the model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import mlx.core as mx
import numpy as np

from mlxbatch.convert.checkpoint import Checkpoint, Weight
from mlxbatch.convert.file_layout import is_turned
from mlxbatch.convert.layout import SHARD, Layout, Tensor, layout, quantization
from mlxbatch.convert.precision import Packing, Precision
from mlxbatch.errors import SetupError, UsageError, show
from mlxbatch.models.weights import AGAIN, INDEX, Shape

# Bytes of a weight that are cast, quantized and written at a time: MLX's own arrays for one piece take a few times as
# much, and rows are quantized each by itself.
PIECE = 16 * 2**20
# What MLX may keep of freed memory for the next piece.
_CACHE = 4 * PIECE

# Of a number that is none, or infinite, all bits of the exponent are set (IEEE 754).
_EXPONENTS = {
    mx.float32: (np.uint32, 0x7F800000),
    mx.float16: (np.uint16, 0x7C00),
    mx.bfloat16: (np.uint16, 0x7F80),
}
# Weights by another name: plain mlx-audio loads every such file that it finds in a directory.
_WEIGHTS = (".safetensors", ".npz", ".index.json")
_SECTIONS = ("quantization", "quantization_config")


@dataclass(frozen=True, slots=True)
class Step:
    """How far it is: the weight that was written last, and bytes of the checkpoint read, of all."""

    weight: str
    done: int
    total: int


Progress = Callable[[Step], None]


def layout_of(checkpoint: Checkpoint, precision: Precision) -> Layout:
    """Where the tensors of a checkpoint will lie once it is brought to a precision."""
    headers = {
        name: (_shape_in_file(checkpoint, precision, name), one.kind) for name, one in checkpoint.weights.items()
    }
    return layout(headers, precision, SHARD)


def _shape_in_file(checkpoint: Checkpoint, precision: Precision, name: str) -> Shape:
    shape = checkpoint.weights[name].shape
    return (*shape[:-2], shape[-1], shape[-2]) if _is_turned(checkpoint, precision, name) else shape


def _is_turned(checkpoint: Checkpoint, precision: Precision, name: str) -> bool:
    packed = checkpoint.quantized or bool(precision.packed)
    return is_turned(checkpoint.architecture, name, checkpoint.weights[name].shape, packed=packed)


def write_plain(checkpoint: Checkpoint, target: Path) -> None:
    """Write one model directory, `target`, at the precision that the checkpoint has. Raises as `write` does."""
    write(checkpoint, {target: Precision()}, lambda step: None)


def write(checkpoint: Checkpoint, models: Mapping[Path, Precision], progress: Progress) -> list[Layout]:
    """Write a whole model directory for each of `models`, which are made, from one reading of the checkpoint.

    All work is done on MLX's CPU stream. UsageError where a number is beyond the dtype asked for, SetupError where the
    checkpoint is damaged; OSError of the disk. What is written till then is the caller's to remove.
    """
    with ExitStack() as stack:
        stack.enter_context(_frugal())
        outputs = [stack.enter_context(_writing(checkpoint, own, folder)) for folder, own in models.items()]
        total, done = sum(_stored_bytes(checkpoint, name) for name in checkpoint.weights), 0
        for name, weight in checkpoint.weights.items():
            array = _read(checkpoint, weight)
            for output in outputs:
                output.put(name, array)
            del array
            done += _stored_bytes(checkpoint, name)
            progress(Step(name, done, total))
    for output, (folder, own) in zip(outputs, models.items(), strict=True):
        _write_settings(checkpoint, own, output.layout, folder)
    return [output.layout for output in outputs]


def _read(checkpoint: Checkpoint, weight: Weight) -> mx.array:
    try:
        return weight.read()
    except ValueError as error:
        raise _damaged(checkpoint, str(error)) from error


def _damaged(checkpoint: Checkpoint, what: str) -> SetupError:
    return SetupError(f"{show(checkpoint.origin.source)}: {what}")


def largest_weight(checkpoint: Checkpoint) -> int:
    """Bytes of the checkpoint's largest weight as it is stored: what `write` holds at most, and a few pieces."""
    return max((_stored_bytes(checkpoint, name) for name in checkpoint.weights), default=0)


def _stored_bytes(checkpoint: Checkpoint, name: str) -> int:
    weight = checkpoint.weights[name]
    return Tensor(name, weight.kind, weight.shape).bytes


@contextmanager
def _frugal() -> Iterator[None]:
    """MLX works on the CPU, and gives back what it no longer needs."""
    before = mx.set_cache_limit(_CACHE)
    try:
        with mx.stream(mx.cpu):
            yield
    finally:
        mx.set_cache_limit(before)
        mx.clear_cache()


@contextmanager
def _writing(checkpoint: Checkpoint, precision: Precision, folder: Path) -> Iterator[_Output]:
    """A model's weight files, open, their heads written."""
    planned = layout_of(checkpoint, precision)
    folder.mkdir(parents=True)
    with ExitStack() as files:
        places: dict[str, tuple[IO[bytes], int]] = {}
        for one in planned.files:
            file = files.enter_context((folder / one.name).open("wb"))
            file.write(one.head)
            places |= {tensor: (file, at) for tensor, at in one.places.items()}
        yield _Output(checkpoint, precision, planned, places)


@dataclass(frozen=True, slots=True)
class _Output:
    """One of the models that are being written; `places`: each tensor's file, and the byte where it begins."""

    checkpoint: Checkpoint
    precision: Precision
    layout: Layout
    places: Mapping[str, tuple[IO[bytes], int]]

    def put(self, name: str, array: mx.array) -> None:
        """Bring a weight to its precision, and write it where it belongs, rows by rows."""
        tensors = self.layout.made_of[name]
        packing = self.precision.packed.get(name.rpartition(".")[0]) if len(tensors) > 1 else None
        if _is_turned(self.checkpoint, self.precision, name):
            array = mx.contiguous(mx.swapaxes(array, -1, -2))
        for first, rows in _pieces(array):
            numbers = self._cast(name, rows)
            parts = self._pack(name, numbers, packing) if packing else [numbers]
            for tensor, part in zip(tensors, parts, strict=True):
                file, at = self.places[tensor.name]
                file.seek(at + first * tensor.row_bytes)
                file.write(_bytes(part))

    def _cast(self, name: str, rows: mx.array) -> mx.array:
        wanted = self.precision.dtype
        if not mx.issubdtype(rows.dtype, mx.floating):
            return rows
        if wanted is None:
            return rows if rows.dtype != mx.float64 else rows.astype(mx.float32)
        numbers = rows.astype(getattr(mx, wanted))
        # The others reach as far as float32 does.
        if numbers.dtype == mx.float16 and rows.dtype != mx.float16 and _overflows(rows, numbers):
            raise UsageError(f"{name} holds numbers beyond float16's 65,504: take --dtype bfloat16 or float32")
        return numbers

    def _pack(self, name: str, numbers: mx.array, packing: Packing) -> list[mx.array]:
        # MLX makes something of them: its scales need not tell.
        if not _finite(numbers):
            raise _damaged(self.checkpoint, f"{name} holds what is no finite number; {AGAIN}")
        return list(mx.quantize(numbers, group_size=packing.group_size, bits=packing.bits, mode=packing.mode))


def _finite(array: mx.array) -> bool:
    """Whether all numbers are finite, by their bits: tens of times as fast as MLX's isfinite on a CPU."""
    kind, exponent = _EXPONENTS[array.dtype]
    bits = np.frombuffer(_bytes(array), kind)
    return not bits.size or bool((bits & exponent).max() != exponent)


def _overflows(wide: mx.array, narrow: mx.array) -> bool:
    return not _finite(narrow) and bool(mx.any(mx.isinf(narrow) & mx.isfinite(wide)))


def _pieces(array: mx.array) -> Iterator[tuple[int, mx.array]]:
    """The array in pieces of so many rows that each is about PIECE bytes: the first row's number, and the rows."""
    if not array.shape:
        yield 0, array.reshape(1)
        return
    rows = max(1, PIECE // max(1, array.nbytes // max(1, array.shape[0])))
    for first in range(0, array.shape[0], rows):
        yield first, array[first : first + rows]


def _bytes(array: mx.array) -> memoryview:
    """What the array's numbers are in memory, without a copy where they lie in a row already."""
    return memoryview(mx.contiguous(array.reshape(-1)).view(mx.uint8))


# ---- what lies beside the weights


def _write_settings(checkpoint: Checkpoint, precision: Precision, planned: Layout, folder: Path) -> None:
    for name, content in checkpoint.files.items():
        if name == "config.json" or ("/" not in name and name.endswith(_WEIGHTS)):
            continue
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            shutil.copyfile(content, path)
        else:
            path.write_bytes(content)
    _write_json(folder / "config.json", config_of(checkpoint, precision))
    if planned.index:
        _write_json(folder / INDEX, planned.index)


def config_of(checkpoint: Checkpoint, precision: Precision) -> dict[str, Any]:
    """config.json of the converted model. mlx-lm reads one of the two sections, plain mlx-audio either.

    A config that names no architecture, as NVIDIA's, gets a name: mlx-audio would guess by the directory's.
    """
    config = {key: value for key, value in checkpoint.config.items() if key not in _SECTIONS}
    if not (config.get("model_type") or config.get("architecture")):
        config["model_type"] = checkpoint.architecture
    if precision.dtype:
        config |= {key: precision.dtype for key in ("torch_dtype", "dtype") if key in config}
    form = quantization(precision)
    return config | (dict.fromkeys(_SECTIONS, form) if form else {})


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", "utf-8")
