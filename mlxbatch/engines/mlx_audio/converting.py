"""A checkpoint as mlx-audio's own class of that architecture takes it: its names, its layout, a weight at a time."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from mlxbatch.convert.checkpoint import Weight
from mlxbatch.engines.families import FAMILIES, MISSING
from mlxbatch.engines.mlx_audio.loading import at_work, built, check_weights, expected, network_of, sanitized
from mlxbatch.errors import SetupError
from mlxbatch.models.architecture import read_json
from mlxbatch.types import Task

# The package of mlx-audio that a task's models are in.
PACKAGES: dict[Task, str] = {"transcribe": "stt", "synthesize": "tts", "separate": "sts"}

_KINDS = {
    mx.float32: "F32",
    mx.float16: "F16",
    mx.bfloat16: "BF16",
    mx.int64: "I64",
    mx.int32: "I32",
    mx.int16: "I16",
    mx.int8: "I8",
    mx.uint64: "U64",
    mx.uint32: "U32",
    mx.uint16: "U16",
    mx.uint8: "U8",
    mx.bool_: "BOOL",
}


@dataclass(frozen=True, slots=True)
class Opened:
    """Weights and quantizable layers under the names that they have in mlx-audio's model."""

    weights: Mapping[str, Weight]
    layers: frozenset[str]


def home(architecture: str, task: Task | None) -> tuple[Task, str] | None:
    """The task and the full name of mlx-audio's module for an architecture, of the user's task where one is given.

    None where mlx-audio has none; SetupError where it is not installed.
    """
    if find_spec("mlx_audio") is None:
        raise SetupError(f"a {architecture!r} model is converted by mlx-audio, which is not installed: {MISSING}")
    for candidate, package in PACKAGES.items():
        if task in (None, candidate) and (module := _module(architecture, candidate, package)):
            return candidate, module
    return None


def _module(architecture: str, task: Task, package: str) -> str | None:
    """Nothing of mlx-audio but its registry is imported for an architecture that it does not have."""
    from mlx_audio import registry

    if task == "transcribe" and architecture in FAMILIES:
        name = FAMILIES[architecture].module
    elif architecture in registry.supported_model_types(package):
        others = importlib.import_module(f"mlx_audio.{package}.utils").MODEL_REMAPPING
        name = others.get(architecture, architecture)
    else:
        return None
    return f"mlx_audio.{package}.models.{name}"


def open_directory(directory: Path, architecture: str, module_name: str) -> Opened:
    """SetupError where mlx-audio cannot make the model, or a weight is missing or misshapen."""
    computed = FAMILIES[architecture].computed if architecture in FAMILIES else ()
    with at_work(directory, architecture):
        module = importlib.import_module(module_name)
        config = read_json(directory / "config.json") | {"model_path": str(directory)}
        model = built(module, config)
        layers = _quantizable(model)
        stored = sanitized(model, directory)
        wanted = expected(model, config, stored)
        check_weights(wanted, stored, computed, directory)

    def again() -> dict[str, mx.array]:
        with at_work(directory, architecture):
            return sanitized(model, directory)

    one_by_one = _OneByOne(again)
    weights = {
        name: Weight(tuple(array.shape), _KINDS[array.dtype], partial(one_by_one.take, name))
        for name, array in stored.items()
        if name in wanted
    }
    return Opened(weights, layers)


def _quantizable(model: Any) -> frozenset[str]:
    """Layers that MLX can quantize, but for those that the model itself says are to stay plain."""
    allowed: Callable[[str, nn.Module], Any] = getattr(model, "model_quant_predicate", lambda path, layer: True)
    layers = network_of(model).named_modules()
    return frozenset(
        path for path, layer in layers if hasattr(layer, "to_quantized") and "weight" in layer and allowed(path, layer)
    )


class _OneByOne:
    """Weights given out one at a time and not held: what was given stays with the receiver alone.

    A lazy array keeps its numbers once it was asked for them, as long as anybody has it; so each is taken out of the
    dictionary that holds it, and whoever wants one a second time, or on another thread, has them all made anew, lazily.
    """

    def __init__(self, make: Callable[[], dict[str, mx.array]]) -> None:
        self._make, self._left, self._thread = make, dict[str, mx.array](), 0

    def take(self, name: str) -> mx.array:
        if name not in self._left or self._thread != threading.get_ident():
            self._left, self._thread = self._make(), threading.get_ident()
        array = self._left.pop(name)
        mx.eval(array)
        return array
