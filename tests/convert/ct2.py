"""Writer of CTranslate2's binary format, and the tiny Whisper in it."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlxbatch.convert.whisper_weights import sinusoids
from tests.models.tiny import TASKS, TINY_DIMS, TOKEN_IDS, tiny_tensors, tiny_tokenizer, write_json

TYPE_IDS = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4}


def ct2_bytes(
    variables: Mapping[str, NDArray[Any]],
    aliases: Mapping[str, str] | None = None,
    *,
    version: int = 6,
    spec: str = "WhisperSpec",
    revision: int = 3,
) -> bytes:
    out = struct.pack("<I", version) + _string(spec) + struct.pack("<II", revision, len(variables))
    for name, value in variables.items():
        out += _string(name) + struct.pack("<B", value.ndim) + struct.pack(f"<{value.ndim}I", *value.shape)
        out += struct.pack("<BI", TYPE_IDS[value.dtype.name], value.nbytes) + value.tobytes()
    out += struct.pack("<I", len(aliases or {}))
    return out + b"".join(_string(alias) + _string(name) for alias, name in (aliases or {}).items())


def _string(text: str) -> bytes:
    raw = text.encode() + b"\0"
    return struct.pack("<H", len(raw)) + raw


def ct2_variables(tensors: Mapping[str, NDArray[np.float16]]) -> dict[str, NDArray[Any]]:
    """The tiny Whisper's weights as CTranslate2 stores them: projections stacked, keys with a bias of zeros."""
    variables: dict[str, NDArray[Any]] = {
        "encoder/num_heads": np.array(TINY_DIMS.n_audio_head, np.int16),
        "decoder/num_heads": np.array(TINY_DIMS.n_text_head, np.int16),
        "encoder/position_encodings/encodings": sinusoids(1500, TINY_DIMS.n_audio_state).astype(np.float16),
        "decoder/position_encodings/encodings": tensors["decoder.positional_embedding"],
        "decoder/embeddings/weight": tensors["decoder.token_embedding.weight"],
    }
    for conv in ("conv1", "conv2"):
        variables[f"encoder/{conv}/weight"] = tensors[f"encoder.{conv}.weight"].transpose(0, 2, 1)
        variables[f"encoder/{conv}/bias"] = tensors[f"encoder.{conv}.bias"]
    for side, last in (("encoder", "ln_post"), ("decoder", "ln")):
        _put_norm(variables, tensors, f"{side}/layer_norm", f"{side}.{last}")
        for layer in range(2):
            _put_block(variables, tensors, side, layer)
    return variables


def _put_block(variables: dict[str, NDArray[Any]], tensors: Mapping[str, Any], side: str, layer: int) -> None:
    target, name = f"{side}/layer_{layer}", f"{side}.blocks.{layer}"
    own = f"{target}/self_attention"
    _put_stacked(variables, tensors, f"{own}/linear_0", f"{name}.attn", ("query", "key", "value"))
    _put_stacked(variables, tensors, f"{own}/linear_1", f"{name}.attn", ("out",))
    _put_norm(variables, tensors, f"{own}/layer_norm", f"{name}.attn_ln")
    if side == "decoder":
        for number, parts in enumerate((("query",), ("key", "value"), ("out",))):
            _put_stacked(variables, tensors, f"{target}/attention/linear_{number}", f"{name}.cross_attn", parts)
        _put_norm(variables, tensors, f"{target}/attention/layer_norm", f"{name}.cross_attn_ln")
    _put_stacked(variables, tensors, f"{target}/ffn/linear_0", name, ("mlp1",))
    _put_stacked(variables, tensors, f"{target}/ffn/linear_1", name, ("mlp2",))
    _put_norm(variables, tensors, f"{target}/ffn/layer_norm", f"{name}.mlp_ln")


def _put_stacked(
    variables: dict[str, NDArray[Any]], tensors: Mapping[str, Any], target: str, name: str, parts: tuple[str, ...]
) -> None:
    weights = [tensors[f"{name}.{part}.weight"] for part in parts]
    zeros = np.zeros(weights[0].shape[0], np.float16)
    biases = [zeros if part == "key" else tensors[f"{name}.{part}.bias"] for part in parts]
    variables[f"{target}/weight"], variables[f"{target}/bias"] = np.concatenate(weights), np.concatenate(biases)


def _put_norm(variables: dict[str, NDArray[Any]], tensors: Mapping[str, Any], target: str, name: str) -> None:
    variables[f"{target}/gamma"], variables[f"{target}/beta"] = tensors[f"{name}.weight"], tensors[f"{name}.bias"]


def ct2_config() -> dict[str, Any]:
    return {
        "alignment_heads": [[1, 0], [1, 1]],
        "lang_ids": list(range(TOKEN_IDS["<|en|>"], TOKEN_IDS["<|translate|>"])),
        "suppress_ids": [TOKEN_IDS[token] for token in TASKS[:5]],
        "suppress_ids_begin": [TOKEN_IDS["Ġ"], TOKEN_IDS["<|endoftext|>"]],
    }


def write_ct2_source(directory: Path, *, seed: int = 0) -> Path:
    """The tiny Whisper as CTranslate2 publishes one: model.bin, config.json, a tokenizer.json without timestamps."""
    directory.mkdir(parents=True, exist_ok=True)
    aliases = {"decoder/projection/weight": "decoder/embeddings/weight"}
    (directory / "model.bin").write_bytes(ct2_bytes(ct2_variables(tiny_tensors(seed)), aliases))
    write_json(directory / "config.json", ct2_config())
    write_json(directory / "tokenizer.json", tiny_tokenizer(timestamps=False))
    return directory
