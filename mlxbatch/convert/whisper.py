"""CTranslate2's Whisper: its weights under MLX's names, and as a model directory for mlx-audio and mlxbatch."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from mlxbatch.convert.ctranslate2 import Variables, read_ctranslate2
from mlxbatch.convert.readers.ranges import Ranges
from mlxbatch.convert.readers.stored import Stored
from mlxbatch.convert.whisper_files import (
    as_json,
    generation_config,
    model_config,
    preprocessor_config,
    tokenizer_config,
)
from mlxbatch.convert.whisper_tokenizer import add_merges, add_timestamps
from mlxbatch.convert.whisper_weights import Whisper, convolution, whole
from mlxbatch.engines.whisper.layout import Dims

Named = Iterator[tuple[str, Stored]]

MODEL = "model.bin"
META_KEYS = ("alignment_heads", "lang_ids", "suppress_ids", "suppress_ids_begin")


def convert_ctranslate2(source: Path, target: Path) -> None:
    """Write the model directory `target` in float16 from CTranslate2's `source/{model.bin,config.json,tokenizer.json}`.

    `target` is made, and must not exist. Raises ValueError that names the file at fault and what is wrong with it,
    SetupError where model.bin cannot be read.
    """
    with closing(Ranges(source / MODEL)) as file:
        whisper = open_ctranslate2(file)
        tensors = {name: stored.floats().astype(np.float16) for name, stored in whisper.weights.items()}
    target.mkdir(parents=True)
    save_file(tensors, target / "model.safetensors", metadata={"format": "mlx"})
    for name, content in {**whisper.files, "config.json": as_json(model_config(whisper.dims))}.items():
        if isinstance(content, Path):
            shutil.copyfile(content, target / name)
        else:
            (target / name).write_bytes(content)
    # safetensors makes its file private to the user; a cache shared by a group needs it like the others.
    shutil.copymode(target / "config.json", target / "model.safetensors")


def open_ctranslate2(file: Ranges, tokenizer_of: Callable[[int], Path] | None = None) -> Whisper:
    """The Whisper in a `model.bin`, with what lies beside it; weights are read later.

    `tokenizer_of` gives the path of another tokenizer.json, by the size of the vocabulary, where there is none.
    Raises ValueError that names the file at fault and what is wrong with it.
    """
    directory = file.path.parent
    variables = _read_model(file)
    meta = _read_json(directory / "config.json", META_KEYS)
    try:
        dims = dims_of(variables)
        weights = whole(dict([*_encoder(variables, dims), *_decoder(variables, dims)]), dims)
    except ValueError as error:
        raise ValueError(f"{MODEL}: {error}") from error
    tokenizer_path = directory / "tokenizer.json"
    if tokenizer_of and not tokenizer_path.exists():
        tokenizer_path = tokenizer_of(dims.n_vocab)
    tokenizer = _read_json(tokenizer_path, ("added_tokens",))
    add_timestamps(tokenizer, dims.n_vocab)
    decoding = generation_config(meta["alignment_heads"], tokenizer, dims, multilingual=len(meta["lang_ids"]) > 1)
    decoding |= {"begin_suppress_tokens": meta["suppress_ids_begin"], "suppress_tokens": meta["suppress_ids"]}
    add_merges(tokenizer)
    files: dict[str, bytes | Path] = {
        "tokenizer.json": as_json(tokenizer),
        "generation_config.json": as_json(decoding),
        "tokenizer_config.json": as_json(tokenizer_config(dims)),
        "preprocessor_config.json": as_json(preprocessor_config(dims)),
    }
    if (licence := directory / "LICENSE").exists():
        files["LICENSE"] = licence
    return Whisper(dims, weights, files)


def _read_model(file: Ranges) -> Variables:
    try:
        variables = read_ctranslate2(file)
    except ValueError as error:
        raise ValueError(f"{file.path.name}: {error}") from error
    if variables.spec != "WhisperSpec":
        raise ValueError(f"{file.path.name}: a {variables.spec}, not a WhisperSpec")
    return variables


def _read_json(path: Path, needed: tuple[str, ...]) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise ValueError(f"{path.name}: missing") from error
    except ValueError as error:
        raise ValueError(f"{path.name}: not JSON ({error})") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path.name}: not a JSON object")
    for key in needed:
        if key not in value:
            raise ValueError(f"{path.name}: key {key!r} is missing")
    return value


def dims_of(variables: Variables) -> Dims:
    """The model's sizes, from the shapes of its variables. Raises ValueError where one is missing."""
    conv, text = variables.weight("encoder/conv1/weight"), variables.weight("decoder/embeddings/weight")
    if (len(conv.shape), len(text.shape)) != (3, 2):
        raise ValueError(f"its first layers have the shapes {list(conv.shape)} and {list(text.shape)}: not a Whisper's")
    return Dims(
        n_mels=conv.shape[1],
        n_audio_ctx=variables.weight("encoder/position_encodings/encodings").shape[0],
        n_audio_state=conv.shape[0],
        n_audio_head=_heads(variables, "encoder"),
        n_audio_layer=_layers(variables, "encoder"),
        n_vocab=text.shape[0],
        n_text_ctx=variables.weight("decoder/position_encodings/encodings").shape[0],
        n_text_state=text.shape[1],
        n_text_head=_heads(variables, "decoder"),
        n_text_layer=_layers(variables, "decoder"),
    )


def _heads(variables: Variables, side: str) -> int:
    name = f"{side}/num_heads"
    if name not in variables.stored:
        raise ValueError(f"variable {name!r} is missing")
    return int(variables.stored[name].read())


def _layers(variables: Variables, side: str) -> int:
    pattern = re.compile(rf"{side}/layer_(\d+)/")
    return len({match[1] for name in variables.stored if (match := pattern.match(name))})


def _encoder(variables: Variables, dims: Dims) -> Named:
    for conv in ("conv1", "conv2"):
        yield f"encoder.{conv}.weight", convolution(variables.weight(f"encoder/{conv}/weight"))
        yield f"encoder.{conv}.bias", variables.weight(f"encoder/{conv}/bias")
    yield "encoder.positional_embedding", variables.weight("encoder/position_encodings/encodings")
    for layer in range(dims.n_audio_layer):
        yield from _block(variables, f"encoder/layer_{layer}", f"encoder.blocks.{layer}", cross=False)
    yield from _norm(variables, "encoder/layer_norm", "encoder.ln_post")


def _decoder(variables: Variables, dims: Dims) -> Named:
    yield "decoder.token_embedding.weight", variables.weight("decoder/embeddings/weight")
    yield "decoder.positional_embedding", variables.weight("decoder/position_encodings/encodings")
    for layer in range(dims.n_text_layer):
        yield from _block(variables, f"decoder/layer_{layer}", f"decoder.blocks.{layer}", cross=True)
    yield from _norm(variables, "decoder/layer_norm", "decoder.ln")


def _block(variables: Variables, source: str, name: str, *, cross: bool) -> Named:
    own, other = f"{source}/self_attention", f"{source}/attention"
    yield from _fused(variables, f"{own}/linear_0", f"{name}.attn", ("query", "key", "value"))
    yield from _linear(variables, f"{own}/linear_1", f"{name}.attn.out")
    yield from _norm(variables, f"{own}/layer_norm", f"{name}.attn_ln")
    if cross:
        yield from _linear(variables, f"{other}/linear_0", f"{name}.cross_attn.query")
        yield from _fused(variables, f"{other}/linear_1", f"{name}.cross_attn", ("key", "value"))
        yield from _linear(variables, f"{other}/linear_2", f"{name}.cross_attn.out")
        yield from _norm(variables, f"{other}/layer_norm", f"{name}.cross_attn_ln")
    yield from _linear(variables, f"{source}/ffn/linear_0", f"{name}.mlp1")
    yield from _linear(variables, f"{source}/ffn/linear_1", f"{name}.mlp2")
    yield from _norm(variables, f"{source}/ffn/layer_norm", f"{name}.mlp_ln")


def _fused(variables: Variables, source: str, name: str, parts: tuple[str, ...]) -> Named:
    """Projections that CTranslate2 stacks by rows; the key's bias is dropped, as Whisper has none."""
    weight, bias = variables.weight(f"{source}/weight"), variables.weight(f"{source}/bias")
    if len(weight.shape) != 2 or weight.shape[0] % len(parts) or bias.shape != weight.shape[:1]:
        raise ValueError(f"{source!r} of shape {list(weight.shape)} isn't {len(parts)} projections")
    for number, part in enumerate(parts):
        yield f"{name}.{part}.weight", weight.part(number, len(parts))
        own_bias = bias.part(number, len(parts))
        if part != "key":
            yield f"{name}.{part}.bias", own_bias
        elif np.any(own_bias.floats()):
            raise ValueError(f"{source!r} has a bias on its keys, a Whisper has none")


def _linear(variables: Variables, source: str, name: str) -> Named:
    yield f"{name}.weight", variables.weight(f"{source}/weight")
    yield f"{name}.bias", variables.weight(f"{source}/bias")


def _norm(variables: Variables, source: str, name: str) -> Named:
    yield f"{name}.weight", variables.weight(f"{source}/gamma")
    yield f"{name}.bias", variables.weight(f"{source}/beta")
