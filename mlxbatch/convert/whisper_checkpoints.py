"""Whisper's checkpoints: directories of Hugging Face and MLX, CTranslate2's model.bin, OpenAI's .pt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

from mlxbatch.convert.beside import beside
from mlxbatch.convert.checkpoint import Checkpoint
from mlxbatch.convert.opening import Reader, Source, packing, weights
from mlxbatch.convert.readers.directory import open_zip, read_directory
from mlxbatch.convert.readers.ranges import Ranges, at_fault
from mlxbatch.convert.readers.stored import Stored
from mlxbatch.convert.readers.torch import read_torch
from mlxbatch.convert.whisper import MODEL, open_ctranslate2
from mlxbatch.convert.whisper_files import (
    as_json,
    generation_config,
    model_config,
    preprocessor_config,
    tokenizer_config,
)
from mlxbatch.convert.whisper_tokenizer import MULTILINGUAL, SIZES
from mlxbatch.convert.whisper_weights import Whisper, convolution, layers, openai_name, whole
from mlxbatch.engines.whisper.heads import Head, heads_by_sizes, valid_heads
from mlxbatch.engines.whisper.layout import CONV_WEIGHTS, Dims, canonical_name, is_hugging_face
from mlxbatch.errors import SetupError, UsageError, show
from mlxbatch.models.architecture import architecture, read_json
from mlxbatch.models.canonical import tokenizer_file
from mlxbatch.models.repair import plan
from mlxbatch.models.weights import weight_files

OTHER = "weights and config do not belong together, or it is another model"
TORCH = (".pt", ".pth")


def _checkpoint(source: Source, whisper: Whisper, files: list[Path], packed: Mapping[str, Any] | None) -> Checkpoint:
    if source.task not in (None, "transcribe"):
        raise UsageError(f"{show(source.origin.source)}: a Whisper, which is for transcribe and not for {source.task}")
    return Checkpoint(
        architecture="whisper",
        task="transcribe",
        config=model_config(whisper.dims) | ({"quantization": packed} if packed else {}),
        weights=weights(whisper.weights),
        layers=layers(whisper.dims),
        files=whisper.files,
        origin=source.read_from(files),
        quantized=packed is not None,
    )


# ---- Hugging Face's and MLX's directories


def _is_whisper(path: Path) -> bool:
    try:
        return path.is_dir() and architecture(read_json(path / "config.json")) == "whisper"
    except SetupError:
        return False


def _read_directory(source: Source) -> Checkpoint:
    directory, config_path = source.path, source.path / "config.json"
    config = read_json(config_path)
    packed = packing(config, config_path)
    with at_fault(config_path, "is it a Whisper's?"):
        dims = Dims.from_config(config)
        _expect_tied(config)
    stored = read_directory(directory, source.opened)
    with at_fault(directory, OTHER):
        named = whole(_named(stored), dims, quantized=packed is not None)
        own = valid_heads(_heads_weight(stored), dims)
        files = _files_of_directory(source, dims, own or heads_by_sizes(dims))
    return _checkpoint(source, Whisper(dims, named, files), [config_path, *weight_files(directory)], packed)


def _expect_tied(config: Mapping[str, Any]) -> None:
    if config.get("tie_word_embeddings") is False:
        raise ValueError("its output has a matrix of its own (tie_word_embeddings is false), which MLX's does not")


def _named(stored: Mapping[str, Stored]) -> dict[str, Stored]:
    """By MLX's names; those of Hugging Face with their convolutions turned, and the positions kept to be looked at."""
    if not is_hugging_face(stored):
        return dict(stored)
    named: dict[str, Stored] = {}
    for name, one in stored.items():
        if name.removeprefix("model.") == "encoder.embed_positions.weight":
            named["encoder.positional_embedding"] = one
        elif mlx_name := canonical_name(name):
            named[mlx_name] = convolution(one) if mlx_name in CONV_WEIGHTS else one
    return named


def _heads_weight(stored: Mapping[str, Stored]) -> Any:
    """MLX's first conversions keep the alignment heads as a weight."""
    return stored["alignment_heads"].read().tolist() if "alignment_heads" in stored else None


def _files_of_directory(source: Source, dims: Dims, heads: tuple[Head, ...]) -> dict[str, bytes | Path]:
    """Those beside the weights, with what is missing: a tokenizer, or parts of one, and the settings it takes."""
    done, made = plan(source.path, offline=source.offline, say=source.say)
    if done:
        source.say(f"{source.origin.source}: {done}")
    files = beside(source.path) | dict(made)
    if "tokenizer.json" not in files:
        read_json(source.path / "tokenizer.json")  # which says what to do
    return _with_settings(files, dims, heads)


def _with_settings(files: dict[str, bytes | Path], dims: Dims, heads: tuple[Head, ...]) -> dict[str, bytes | Path]:
    """With those files that a Whisper takes beside its tokenizer, where they are missing. ValueError: no Whisper's."""
    own = files["tokenizer.json"]
    tokenizer = json.loads(own if isinstance(own, bytes) else own.read_bytes())
    multilingual = dims.n_vocab >= MULTILINGUAL
    made = {
        "generation_config.json": generation_config(heads, tokenizer, dims, multilingual=multilingual),
        "tokenizer_config.json": tokenizer_config(dims),
        "preprocessor_config.json": preprocessor_config(dims),
    }
    return {**{name: as_json(content) for name, content in made.items()}, **files}


# ---- CTranslate2


def _is_ctranslate2(path: Path) -> bool:
    return (path / MODEL).is_file() and not any(path.glob("*.safetensors"))


def _read_ctranslate2(source: Source) -> Checkpoint:
    directory = source.path
    file = source.opened.enter_context(closing(Ranges(directory / MODEL)))
    try:
        whisper = open_ctranslate2(file, lambda n_vocab: _canonical_tokenizer(source, n_vocab))
    except ValueError as error:
        raise SetupError(f"{show(directory)}: {error}") from error
    return _checkpoint(source, whisper, [directory / MODEL, directory / "config.json"], None)


def _canonical_tokenizer(source: Source, n_vocab: int) -> Path:
    """That of a Whisper which comes without one, by the size of its vocabulary."""
    name = show(source.origin.source)
    if n_vocab not in SIZES:
        raise SetupError(f"{name}: it has no tokenizer.json, and {n_vocab} tokens are no published Whisper's")
    try:
        path = tokenizer_file(n_vocab, offline=source.offline, say=source.say)
    except SetupError as error:
        raise type(error)(f"{name}: it has no tokenizer, and the canonical one cannot be had: {error}") from error
    source.say(f"{name}: no tokenizer in it: taking the canonical one of {n_vocab} tokens")
    return path


# ---- OpenAI


def _is_torch(path: Path) -> bool:
    return path.is_file() and path.suffix in TORCH


def _read_openai(source: Source) -> Checkpoint:
    path = source.path
    with at_fault(path, "a whole .pt of OpenAI's Whisper is needed, as torch.save writes it since 1.6"):
        dims, state = _openai_parts(read_torch(open_zip(path, source.opened)))
        named = {openai_name(name): one for name, one in state.items() if isinstance(one, Stored)}
        turned = {name: convolution(named[name]) for name in CONV_WEIGHTS if name in named}
        found = whole(named | turned, dims)
    tokenizer = _canonical_tokenizer(source, dims.n_vocab)
    files = _with_settings({"tokenizer.json": tokenizer}, dims, heads_by_sizes(dims))
    return _checkpoint(source, Whisper(dims, found, files), [path], None)


def _openai_parts(saved: Any) -> tuple[Dims, Mapping[str, Any]]:
    if not isinstance(saved, dict) or not isinstance(saved.get("dims"), dict):
        raise ValueError("no Whisper: it has no 'dims'")
    state = saved.get("model_state_dict")
    if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
        raise ValueError("no Whisper: it has no 'model_state_dict'")
    sizes = {field.name: saved["dims"].get(field.name) for field in fields(Dims)}
    return Dims.from_config(sizes), state


READERS = (
    Reader("CTranslate2", _is_ctranslate2, _read_ctranslate2),
    Reader("OpenAI", _is_torch, _read_openai),
    Reader("Whisper", _is_whisper, _read_directory),
)
