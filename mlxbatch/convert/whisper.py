"""CTranslate2's Whisper as a model directory that mlx-audio and mlxbatch both load: float16, MLX's names and layout."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from mlxbatch.convert.ctranslate2 import Checkpoint, read_ctranslate2
from mlxbatch.convert.whisper_tokenizer import END, NO_TIMESTAMPS, START, add_merges, add_timestamps
from mlxbatch.engines.whisper.layout import Dims, expected_shapes

Tensor = NDArray[np.float16]
Named = Iterator[tuple[str, Tensor]]

SAMPLE_RATE = 16_000
HOP_LENGTH = 160
WINDOW_LENGTH = 400
CHUNK_SECONDS = 30
META_KEYS = ("alignment_heads", "lang_ids", "suppress_ids", "suppress_ids_begin")


def convert_ctranslate2(source: Path, target: Path) -> None:
    """Write the model directory `target` from CTranslate2's `source/{model.bin,config.json,tokenizer.json}`.

    `target` is made, and must not exist. Raises ValueError that names the file at fault and what is wrong with it.
    """
    checkpoint = _read_model(source / "model.bin")
    meta = _read_json(source / "config.json", META_KEYS)
    tokenizer = _read_json(source / "tokenizer.json", ("added_tokens",))
    dims = dims_of(checkpoint)
    add_timestamps(tokenizer, dims.n_vocab)
    decoding = generation_config(meta, tokenizer, dims)
    add_merges(tokenizer)
    tensors = whisper_tensors(checkpoint, dims)
    target.mkdir(parents=True)
    save_file(tensors, target / "model.safetensors", metadata={"format": "mlx"})
    _write_json(target / "tokenizer.json", tokenizer)
    _write_json(target / "config.json", model_config(dims))
    _write_json(target / "generation_config.json", decoding)
    _write_json(target / "tokenizer_config.json", tokenizer_config(dims))
    _write_json(target / "preprocessor_config.json", preprocessor_config(dims))
    # safetensors makes its file private to the user; a cache shared by a group needs it like the others.
    shutil.copymode(target / "config.json", target / "model.safetensors")
    if (source / "LICENSE").exists():
        shutil.copyfile(source / "LICENSE", target / "LICENSE")


def _read_model(path: Path) -> Checkpoint:
    try:
        checkpoint = read_ctranslate2(path)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error
    if checkpoint.spec != "WhisperSpec":
        raise ValueError(f"{path.name}: a {checkpoint.spec}, not a WhisperSpec")
    return checkpoint


def _read_json(path: Path, needed: tuple[str, ...]) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path.name}: not JSON ({error})") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path.name}: not a JSON object")
    for key in needed:
        if key not in value:
            raise ValueError(f"{path.name}: key {key!r} is missing")
    return value


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", "utf-8")


def dims_of(checkpoint: Checkpoint) -> Dims:
    """The model's sizes, from the shapes of its variables."""
    conv, text = _float(checkpoint, "encoder/conv1/weight"), _float(checkpoint, "decoder/embeddings/weight")
    return Dims(
        n_mels=conv.shape[1],
        n_audio_ctx=_float(checkpoint, "encoder/position_encodings/encodings").shape[0],
        n_audio_state=conv.shape[0],
        n_audio_head=_heads(checkpoint, "encoder"),
        n_audio_layer=_layers(checkpoint, "encoder"),
        n_vocab=text.shape[0],
        n_text_ctx=_float(checkpoint, "decoder/position_encodings/encodings").shape[0],
        n_text_state=text.shape[1],
        n_text_head=_heads(checkpoint, "decoder"),
        n_text_layer=_layers(checkpoint, "decoder"),
    )


def _heads(checkpoint: Checkpoint, side: str) -> int:
    name = f"{side}/num_heads"
    if name not in checkpoint.variables:
        raise ValueError(f"model.bin: variable {name!r} is missing")
    return int(checkpoint.variables[name])


def _layers(checkpoint: Checkpoint, side: str) -> int:
    pattern = re.compile(rf"{side}/layer_(\d+)/")
    return len({match[1] for name in checkpoint.variables if (match := pattern.match(name))})


def _float(checkpoint: Checkpoint, name: str) -> Tensor:
    """A variable as float16. Quantized CTranslate2 models hold integers with scales: not what we convert from."""
    name = checkpoint.aliases.get(name, name)
    if name not in checkpoint.variables:
        raise ValueError(f"model.bin: variable {name!r} is missing")
    value = checkpoint.variables[name]
    if value.dtype.kind != "f":
        raise ValueError(f"model.bin: {name!r} is quantized ({value.dtype}); a float16 or float32 model is needed")
    return value.astype(np.float16, copy=False)


def whisper_tensors(checkpoint: Checkpoint, dims: Dims) -> dict[str, Tensor]:
    """All weights under MLX's names, contiguous. Raises ValueError where the model isn't the Whisper it should be."""
    _expect_sinusoids(_float(checkpoint, "encoder/position_encodings/encodings"))
    named = dict([*_encoder(checkpoint, dims), *_decoder(checkpoint, dims)])
    for name, shape in expected_shapes(dims).items():
        if named[name].shape != shape:
            raise ValueError(f"model.bin: {name} has shape {named[name].shape}, {shape} is needed")
    return {name: np.ascontiguousarray(tensor) for name, tensor in named.items()}


def _encoder(checkpoint: Checkpoint, dims: Dims) -> Named:
    for conv in ("conv1", "conv2"):
        weight = _float(checkpoint, f"encoder/{conv}/weight")
        yield f"encoder.{conv}.weight", weight.transpose(0, 2, 1)  # [out, in, k] -> [out, k, in]
        yield f"encoder.{conv}.bias", _float(checkpoint, f"encoder/{conv}/bias")
    for layer in range(dims.n_audio_layer):
        yield from _block(checkpoint, f"encoder/layer_{layer}", f"encoder.blocks.{layer}", cross=False)
    yield from _norm(checkpoint, "encoder/layer_norm", "encoder.ln_post")


def _decoder(checkpoint: Checkpoint, dims: Dims) -> Named:
    yield "decoder.token_embedding.weight", _float(checkpoint, "decoder/embeddings/weight")
    yield "decoder.positional_embedding", _float(checkpoint, "decoder/position_encodings/encodings")
    for layer in range(dims.n_text_layer):
        yield from _block(checkpoint, f"decoder/layer_{layer}", f"decoder.blocks.{layer}", cross=True)
    yield from _norm(checkpoint, "decoder/layer_norm", "decoder.ln")


def _block(checkpoint: Checkpoint, source: str, name: str, *, cross: bool) -> Named:
    own, other = f"{source}/self_attention", f"{source}/attention"
    yield from _fused(checkpoint, f"{own}/linear_0", f"{name}.attn", ("query", "key", "value"))
    yield from _linear(checkpoint, f"{own}/linear_1", f"{name}.attn.out")
    yield from _norm(checkpoint, f"{own}/layer_norm", f"{name}.attn_ln")
    if cross:
        yield from _linear(checkpoint, f"{other}/linear_0", f"{name}.cross_attn.query")
        yield from _fused(checkpoint, f"{other}/linear_1", f"{name}.cross_attn", ("key", "value"))
        yield from _linear(checkpoint, f"{other}/linear_2", f"{name}.cross_attn.out")
        yield from _norm(checkpoint, f"{other}/layer_norm", f"{name}.cross_attn_ln")
    yield from _linear(checkpoint, f"{source}/ffn/linear_0", f"{name}.mlp1")
    yield from _linear(checkpoint, f"{source}/ffn/linear_1", f"{name}.mlp2")
    yield from _norm(checkpoint, f"{source}/ffn/layer_norm", f"{name}.mlp_ln")


def _fused(checkpoint: Checkpoint, source: str, name: str, parts: tuple[str, ...]) -> Named:
    """Split projections that CTranslate2 stacks by rows; the key's bias is dropped, as Whisper has none."""
    weight, bias = _float(checkpoint, f"{source}/weight"), _float(checkpoint, f"{source}/bias")
    if weight.shape[0] % len(parts) or weight.shape[0] != bias.shape[0]:
        raise ValueError(f"model.bin: {source!r} of shape {weight.shape} isn't {len(parts)} projections")
    weights, biases = np.split(weight, len(parts)), np.split(bias, len(parts))
    for part, part_weight, part_bias in zip(parts, weights, biases, strict=True):
        yield f"{name}.{part}.weight", part_weight
        if part != "key":
            yield f"{name}.{part}.bias", part_bias
        elif np.any(part_bias):
            raise ValueError(f"model.bin: {source!r} has a bias on its keys, a Whisper has none")


def _linear(checkpoint: Checkpoint, source: str, name: str) -> Named:
    yield f"{name}.weight", _float(checkpoint, f"{source}/weight")
    yield f"{name}.bias", _float(checkpoint, f"{source}/bias")


def _norm(checkpoint: Checkpoint, source: str, name: str) -> Named:
    yield f"{name}.weight", _float(checkpoint, f"{source}/gamma")
    yield f"{name}.bias", _float(checkpoint, f"{source}/beta")


def _expect_sinusoids(positions: Tensor) -> None:
    """MLX computes the encoder's positions, so dropping the stored ones is right only if they are the same."""
    if not np.allclose(positions, sinusoids(*positions.shape), atol=2e-3):
        raise ValueError("model.bin: the encoder's positions are not Whisper's sinusoids")


def sinusoids(length: int, channels: int, max_timescale: float = 10_000.0) -> NDArray[np.float64]:
    """Sinusoidal positions [length, channels]: sines in the first half, cosines in the second.

    Vaswani et al. 2017, section 3.5, with the timescales spaced as in OpenAI's Whisper.
    """
    half = channels // 2
    rates = np.exp(-np.log(max_timescale) / (half - 1) * np.arange(half))
    angles = np.arange(length)[:, None] * rates[None, :]
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def model_config(dims: Dims) -> dict[str, Any]:
    """config.json with MLX's keys; `model_type` is what mlx-audio and transformers choose the model by."""
    sizes = {name: getattr(dims, name) for name in Dims.__dataclass_fields__}
    return {"model_type": "whisper", **sizes}


def generation_config(meta: dict[str, Any], tokenizer: dict[str, Any], dims: Dims) -> dict[str, Any]:
    """generation_config.json from CTranslate2's config.json: tokens never sampled, and the heads that align words."""
    ids = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    for token in (START, END, NO_TIMESTAMPS):
        if token not in ids:
            raise ValueError(f"tokenizer.json: no {token}: not a Whisper's")
    return {
        "alignment_heads": meta["alignment_heads"],
        "begin_suppress_tokens": meta["suppress_ids_begin"],
        "decoder_start_token_id": ids[START],
        "eos_token_id": ids[END],
        "is_multilingual": len(meta["lang_ids"]) > 1,
        "max_length": dims.n_text_ctx,
        "no_timestamps_token_id": ids[NO_TIMESTAMPS],
        "suppress_tokens": meta["suppress_ids"],
    }


def tokenizer_config(dims: Dims) -> dict[str, Any]:
    ends = dict.fromkeys(("bos_token", "eos_token", "pad_token", "unk_token"), END)
    return {"tokenizer_class": "WhisperTokenizer", "model_max_length": dims.n_text_ctx, **ends}


def preprocessor_config(dims: Dims) -> dict[str, Any]:
    """preprocessor_config.json, without which mlx-audio finds no processor; mlxbatch itself goes by the sizes."""
    return {
        "feature_extractor_type": "WhisperFeatureExtractor",
        "processor_class": "WhisperProcessor",
        "feature_size": dims.n_mels,
        "sampling_rate": SAMPLE_RATE,
        "hop_length": HOP_LENGTH,
        "n_fft": WINDOW_LENGTH,
        "chunk_length": CHUNK_SECONDS,
        "n_samples": CHUNK_SECONDS * SAMPLE_RATE,
        "nb_max_frames": CHUNK_SECONDS * SAMPLE_RATE // HOP_LENGTH,
        "padding_side": "right",
        "padding_value": 0.0,
        "return_attention_mask": False,
    }
