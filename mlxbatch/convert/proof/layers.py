"""How far the weights of two model directories are apart, one weight in memory at a time; how many bits they take."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx

from mlxbatch.convert.precision import Packing
from mlxbatch.convert.proof.quality import LayerError, Weights
from mlxbatch.engines.whisper import layout
from mlxbatch.errors import SetupError, show
from mlxbatch.models.architecture import architecture, quantization, read_json
from mlxbatch.models.identity import model_sha
from mlxbatch.models.weights import headers, weight_files


class Stored:
    """The weights of a model's directory under MLX's names, read one by one and each once.

    Opening reads headers alone. Raises SetupError for a directory or a file that cannot be read.
    """

    def __init__(self, directory: Path) -> None:
        config = read_json(directory / "config.json")
        self.directory = directory
        self._settings = quantization(config)
        files = weight_files(directory)
        headers(files)  # says what is wrong with a file
        stored = {name: array for file in files for name, array in mx.load(str(file)).items()}
        self._whisper = architecture(config) == "whisper"
        self._hugging_face = self._whisper and layout.is_hugging_face(stored)
        self._arrays = {own: array for name, array in stored.items() if (own := self._named(name)) is not None}

    def _named(self, name: str) -> str | None:
        return layout.canonical_name(name) if self._hugging_face else name

    def names(self) -> list[str]:
        """Of all weights, a packed layer's being one."""
        return [name for name in self._arrays if not self._is_part(name)]

    def packing(self, layer: str) -> Packing | None:
        """How a layer is packed, by its path; None of a plain one."""
        if self._settings is None or f"{layer}.scales" not in self._arrays:
            return None
        own = self._settings.get(layer)
        form = {**self._settings, **own} if isinstance(own, Mapping) else self._settings
        return Packing(form["bits"], form["group_size"], form.get("mode", "affine"))

    def parameters(self) -> int:
        """How many numbers there are, unpacked."""
        return sum(self._numbers(name) for name in self.names())

    def _numbers(self, name: str) -> int:
        layer, _, part = name.rpartition(".")
        packing = self.packing(layer) if part == "weight" else None
        return self._arrays[f"{layer}.scales"].size * packing.group_size if packing else self._arrays[name].size

    def take(self, name: str) -> mx.array:
        """A weight, dequantized, float32. It is gone from here then, so that its memory can be."""
        layer, _, part = name.rpartition(".")
        packing = self.packing(layer) if part == "weight" else None
        array = self._arrays.pop(name)
        if packing is not None:
            scales, biases = self._arrays.pop(f"{layer}.scales"), self._arrays.pop(f"{layer}.biases", None)
            form: dict[str, Any] = {"group_size": packing.group_size, "bits": packing.bits, "mode": packing.mode}
            array = mx.dequantize(array, scales, biases, **form)
        if self._hugging_face and name in layout.CONV_WEIGHTS:
            array = array.swapaxes(1, 2)
        return array.astype(mx.float32)

    def _is_part(self, name: str) -> bool:
        """Whether it is the scales or offsets of a packed layer."""
        layer, _, part = name.rpartition(".")
        return part in ("scales", "biases") and f"{layer}.scales" in self._arrays


@dataclass(frozen=True, slots=True)
class Compared:
    """The errors of weights that both have, and those the original lacks by the converted one's names."""

    errors: tuple[LayerError, ...]
    unknown: tuple[str, ...]


def layer_errors(original: Path, converted: Path) -> Compared:
    """||W - W'|| / ||W|| of every weight of the converted model that is packed, or not exactly the original's.

    Names of other families than Whisper's are those stored: a layout that mlx-audio renames on loading is not compared.
    Raises SetupError where a weight has another shape.
    """
    before, after = Stored(original), Stored(converted)
    known = set(before.names())
    unknown = tuple(name for name in after.names() if name not in known)
    names = [name for name in after.names() if name in known]
    return Compared(tuple(_errors(before, after, names)), unknown)


def _errors(before: Stored, after: Stored, names: list[str]) -> Iterator[LayerError]:
    for name in names:
        layer, _, part = name.rpartition(".")
        packing = after.packing(layer) if part == "weight" else None
        error = _error(before.take(name), after.take(name), f"{show(after.directory)}: {name}")
        if packing is not None:
            yield LayerError(layer, error, packing.bits, packing.group_size, packing.mode)
        elif error:
            yield LayerError(name, error)


def _error(before: mx.array, after: mx.array, what: str) -> float:
    if before.shape != after.shape:
        raise SetupError(f"{what} has shape {list(after.shape)}, and {list(before.shape)} in the original")
    away, size = (mx.sqrt(mx.sum(mx.square(x))).item() for x in (before - after, before))
    if size == 0:
        return 0.0 if away == 0 else math.inf
    return float(away / size)


def weights(directory: Path) -> Weights:
    """What a model's weights take, in all and for each of its numbers, and which they are. Raises SetupError."""
    total = sum(file.stat().st_size for file in weight_files(directory))
    parameters = Stored(directory).parameters()
    return Weights(total, parameters, 8 * total / parameters, model_sha(directory))
