"""A model of mlx-audio from a local directory: every weight checked, nothing fetched, nothing said."""

from __future__ import annotations

import importlib
import re
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

from mlxbatch import device
from mlxbatch.engines import quantizing
from mlxbatch.engines.families import Family
from mlxbatch.engines.mlx_audio.hush import hushed
from mlxbatch.errors import MlxBatchError, SetupError, show
from mlxbatch.models.architecture import quantization, read_json
from mlxbatch.models.weights import WHOLE, weight_files


def load(directory: Path, family: Family, dtype: mx.Dtype, bits: int | None = None, *, dequantized: bool) -> Any:
    """mlx-audio's model, its weights in `dtype`, evaluated on the thread that calls.

    mlx-audio's own loader leaves missing weights random, may fetch a tokenizer from the network, and lets transformers
    run programs that the files name; here each is a SetupError. With `bits` its matrices are quantized to so many; a
    checkpoint that is stored quantized stays as it is.
    `dequantized`: quantized layers become plain ones of the same values.
    """
    with at_work(directory, family.name):
        place = family.module if "." in family.module else f"stt.models.{family.module}"
        module = importlib.import_module(f"mlx_audio.{place}")
        config = read_json(directory / "config.json") | {"model_path": str(directory)}
        model = built(module, config)
        _fill(model, directory, config, family)
        network = network_of(model)
        if bits and not quantization(config):
            quantizing.quantize(network, bits)
        if dequantized:
            quantizing.dequantize(network)
        network.set_dtype(dtype)
        network.eval()
        mx.eval(network.parameters())
        hook = getattr(module.Model, "post_load_hook", None)
        return hook(model, directory) if hook else model


@contextmanager
def at_work(directory: Path, name: str) -> Iterator[None]:
    """mlx-audio's code at work over the directory of a model called so: silent, offline, and running no programs."""
    with hushed(), _offline(), _no_programs(directory), _as_setup_error(directory, name):
        _keep_tqdm_to_threads()
        yield


def built(module: Any, config: Mapping[str, Any]) -> Any:
    """The model of one of mlx-audio's modules, without its weights: those it has are made lazily, and never."""
    form = getattr(module, "ModelConfig", None)
    return module.Model(form.from_dict(dict(config)) if form else config)


def network_of(model: Any) -> nn.Module:
    """The module that holds the weights: Qwen3-ASR's model is a wrapper around it."""
    return model if isinstance(model, nn.Module) else model._model


@contextmanager
def _as_setup_error(directory: Path, name: str) -> Iterator[None]:
    """Whatever mlx-audio, transformers and others raise over a directory means that it is not as they expect it."""
    try:
        yield
    except (MlxBatchError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, RuntimeError) and device.translated(error) is not error:
            raise  # MLX's, for a device that has no memory or is lost
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise SetupError(f"{show(directory)}: {name} cannot be loaded from it: {first}; {WHOLE}") from error


@contextmanager
def _offline() -> Iterator[None]:
    """No look at the model hub while this lasts: all that a model needs lies in its directory."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


@contextmanager
def _no_programs(directory: Path) -> Iterator[None]:
    """No program that a model's files name is run while this lasts: mlx-audio tells transformers to trust them all."""
    from transformers import dynamic_module_utils

    def refuse(*_: Any, **__: Any) -> Any:
        raise SetupError(f"{show(directory)}: a setting of its tokenizer names a program to run; take it out")

    ways = ("get_cached_module_file", "get_class_in_module")
    before = {way: getattr(dynamic_module_utils, way) for way in ways}
    for way in ways:
        setattr(dynamic_module_utils, way, refuse)
    try:
        yield
    finally:
        for way, function in before.items():
            setattr(dynamic_module_utils, way, function)


def _keep_tqdm_to_threads() -> None:
    """tqdm's own lock takes a semaphore of the system, of whose leak Python warns once the engine's process is gone."""
    from tqdm import tqdm

    tqdm.set_lock(threading.RLock())


def _fill(model: Any, directory: Path, config: dict[str, Any], family: Family) -> None:
    weights = sanitized(model, directory)
    wanted = expected(model, config, weights)
    check_weights(wanted, weights, family.computed, directory)
    model.load_weights([(name, weight) for name, weight in weights.items() if name in wanted], strict=False)


def sanitized(model: Any, directory: Path) -> dict[str, mx.array]:
    """The checkpoint's weights as the model has them, by its own `sanitize`; lazy, as far as that lets them be."""
    weights: dict[str, mx.array] = {}
    for file in weight_files(directory):
        weights.update(mx.load(str(file)))
    return model.sanitize(weights) if hasattr(model, "sanitize") else weights


def expected(model: Any, config: dict[str, Any], weights: dict[str, mx.array]) -> dict[str, mx.array]:
    """The weights of the model, those of its layers packed that config.json, or `weights`, have quantized."""
    from mlx_audio.utils import apply_quantization

    apply_quantization(model, config, weights, getattr(model, "model_quant_predicate", None))
    return dict(tree_flatten(model.parameters()))


def check_weights(
    wanted: Mapping[str, mx.array], stored: Mapping[str, mx.array], computed: Collection[str], directory: Path
) -> None:
    """SetupError unless every weight is there in its shape, and no layers that config.json knows nothing of.

    `computed` are those that the model makes itself where a checkpoint has none.
    """
    files = weight_files(directory)
    where = files[0] if len(files) == 1 else directory
    if missing := [name for name in wanted if name not in stored and name not in computed]:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise SetupError(f"{show(where)}: lacks the weight {missing[0]}{others}, of {len(wanted)}; {WHOLE}")
    for name, array in wanted.items():
        if name in stored and stored[name].shape != array.shape:
            has, want = list(stored[name].shape), list(array.shape)
            cause = "weights and config do not belong together"
            raise SetupError(f"{show(where)}: {name} has shape {has}, config.json wants {want}: {cause}")
    kinds = {_kind(name) for name in wanted}
    if extra := [name for name in stored if name not in wanted and _kind(name) in kinds]:
        cause = "weights and config do not belong together"
        raise SetupError(f"{show(where)}: holds {extra[0]}, a layer that config.json does not have: {cause}")


def _kind(name: str) -> str:
    """The weight's name without the numbers of its layers."""
    return re.sub(r"\.\d+\.", ".#.", name)
