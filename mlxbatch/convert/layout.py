"""Where each tensor of a converted model will lie: in which file, from which byte on. Known from shapes alone. Pure.

The format is safetensors': eight bytes with the header's length, the header as JSON, the tensors without gaps.
https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mlxbatch.convert.precision import Packing, Precision
from mlxbatch.models.weights import FLOATS, INDEX, KIND_BYTES, Header, Shape

SINGLE = "model.safetensors"
# Bytes of tensors in a file at most, as the hub's own libraries divide models.
SHARD = 5 * 10**9
# safetensors asks that a header be padded with spaces, so that the numbers behind it lie on a multiple of eight.
_ALIGNED = 8
_KINDS = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
_WORD = 32


@dataclass(frozen=True, slots=True)
class Tensor:
    """One entry of a file, its type by safetensors' name."""

    name: str
    kind: str
    shape: Shape

    @property
    def row_bytes(self) -> int:
        """Bytes of one row: what stands at one place of the first axis."""
        return math.prod(self.shape[1:]) * KIND_BYTES.get(self.kind, 1)

    @property
    def bytes(self) -> int:
        return self.row_bytes * (self.shape[0] if self.shape else 1)


@dataclass(frozen=True, slots=True)
class File:
    """A file of weights: its head (length and header), and where in it each tensor begins."""

    name: str
    head: bytes
    places: Mapping[str, int]
    bytes: int


@dataclass(frozen=True, slots=True)
class Layout:
    """All files of a model. `made_of` says which tensors each weight of the checkpoint becomes, in their order."""

    made_of: Mapping[str, tuple[Tensor, ...]]
    files: tuple[File, ...]

    @property
    def bytes(self) -> int:
        """What the weight files take on disk."""
        return sum(file.bytes for file in self.files)

    @property
    def tensor_bytes(self) -> int:
        """What the weights themselves take: bits per weight are counted by it."""
        return sum(tensor.bytes for tensors in self.made_of.values() for tensor in tensors)

    @property
    def index(self) -> dict[str, Any] | None:
        """The content of the index that names each tensor's file; None where there is only one."""
        if len(self.files) == 1:
            return None
        where = {name: file.name for file in self.files for name in file.places}
        return {"metadata": {"total_size": self.tensor_bytes}, "weight_map": dict(sorted(where.items()))}

    @property
    def file_names(self) -> list[str]:
        return [*(file.name for file in self.files), *([INDEX] if len(self.files) > 1 else [])]


def layout(stored: Mapping[str, Header], precision: Precision, shard: int) -> Layout:
    """The files of a model whose checkpoint has these weights, once it is brought to `precision`.

    None of them holds more than `shard` bytes of tensors, but one that holds a single layer.
    """
    made_of = {name: tuple(_tensors(name, *header, precision)) for name, header in stored.items()}
    parts = list(_parts(made_of.values(), shard))
    names = [SINGLE] if len(parts) == 1 else [_shard_name(n, len(parts)) for n in range(1, len(parts) + 1)]
    return Layout(made_of, tuple(_file(name, part) for name, part in zip(names, parts, strict=True)))


def _shard_name(number: int, count: int) -> str:
    return f"model-{number:05}-of-{count:05}.safetensors"


def _tensors(name: str, shape: Shape, kind: str, precision: Precision) -> Iterator[Tensor]:
    """What a weight becomes: itself, or packed integers with scales, and in affine offsets, one for each group."""
    number = kind_of(kind, precision)
    layer, _, part = name.rpartition(".")
    packing = precision.packed.get(layer) if part == "weight" else None
    if packing is None:
        yield Tensor(name, number, shape)
        return
    *rows, columns = shape
    groups = (*rows, columns // packing.group_size)
    yield Tensor(name, "U32", (*rows, columns * packing.bits // _WORD))
    if packing.mode == "affine":
        yield from (Tensor(f"{layer}.{part}", number, groups) for part in ("scales", "biases"))
    else:
        yield Tensor(f"{layer}.scales", "U8", groups)  # of eight bits in each of the other modes


def kind_of(kind: str, precision: Precision) -> str:
    """The type that a weight's numbers are brought to, or its scales': integers stay what they are.

    MLX has double precision on the CPU alone, so no model is left in it.
    """
    if kind not in FLOATS:
        return kind
    if precision.dtype:
        return _KINDS[precision.dtype]
    return "F32" if kind == "F64" else kind


def _parts(made: Iterable[tuple[Tensor, ...]], shard: int) -> Iterator[list[Tensor]]:
    """The tensors file by file, those of a layer together; one that is larger than a file has one of its own."""
    part: list[Tensor] = []
    filled = 0
    for tensors in made:
        size = sum(tensor.bytes for tensor in tensors)
        if part and filled + size > shard:
            yield part
            part, filled = [], 0
        part += tensors
        filled += size
    yield part


def _file(name: str, tensors: list[Tensor]) -> File:
    # Wide numbers first, so that each lies on a multiple of its own size though there may be no gaps.
    ordered = sorted(tensors, key=lambda tensor: -KIND_BYTES.get(tensor.kind, 1))
    entries: dict[str, Any] = {"__metadata__": {"format": "mlx"}}
    at: dict[str, int] = {}
    end = 0
    for tensor in ordered:
        at[tensor.name], end = end, end + tensor.bytes
        offsets = [at[tensor.name], end]
        entries[tensor.name] = {"dtype": tensor.kind, "shape": list(tensor.shape), "data_offsets": offsets}
    header = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    header += b" " * (-len(header) % _ALIGNED)
    head = len(header).to_bytes(8, "little") + header
    return File(name, head, {tensor: len(head) + offset for tensor, offset in at.items()}, len(head) + end)


def quantization(precision: Precision) -> dict[str, Any] | None:
    """The section of config.json that says how the layers are packed, as mlx-lm and mlx-audio read it; None of none.

    What most layers have stands at its top, with the smallest group of all: mlx-audio passes over a layer whose width
    that group does not divide. Other layers have entries of their own, those that stay full `false`.
    """
    if not precision.packed:
        return None
    forms = list(precision.packed.values())
    common = max(forms, key=forms.count)
    usual = Packing(common.bits, min(form.group_size for form in forms), common.mode)
    own = {layer: _settings(form) for layer, form in precision.packed.items() if form != usual}
    return {**_settings(usual), **own, **dict.fromkeys(precision.kept, False)}


def _settings(form: Packing) -> dict[str, Any]:
    return {"group_size": form.group_size, "bits": form.bits, "mode": form.mode}
