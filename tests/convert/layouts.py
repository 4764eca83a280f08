"""The tiny Whisper in every layout that checkpoints are published in, and other models' weights as they are."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from mlxbatch.convert.whisper_weights import sinusoids
from mlxbatch.engines.whisper.layout import CONV_WEIGHTS, Dims
from mlxbatch.models.weights import INDEX
from tests.convert.torch_zip import write_torch

Tensors = Mapping[str, NDArray[Any]]

_PARTS = {
    "cross_attn.query": "encoder_attn.q_proj",
    "cross_attn.key": "encoder_attn.k_proj",
    "cross_attn.value": "encoder_attn.v_proj",
    "cross_attn.out": "encoder_attn.out_proj",
    "cross_attn_ln": "encoder_attn_layer_norm",
    "attn.query": "self_attn.q_proj",
    "attn.key": "self_attn.k_proj",
    "attn.value": "self_attn.v_proj",
    "attn.out": "self_attn.out_proj",
    "attn_ln": "self_attn_layer_norm",
    "mlp1": "fc1",
    "mlp2": "fc2",
    "mlp_ln": "final_layer_norm",
}
_TOPS = {
    "encoder.ln_post": "encoder.layer_norm",
    "decoder.ln": "decoder.layer_norm",
    "decoder.token_embedding": "decoder.embed_tokens",
}
_HF_SIZES = {
    "num_mel_bins": "n_mels",
    "max_source_positions": "n_audio_ctx",
    "d_model": "n_audio_state",
    "encoder_attention_heads": "n_audio_head",
    "encoder_layers": "n_audio_layer",
    "vocab_size": "n_vocab",
    "max_target_positions": "n_text_ctx",
    "decoder_attention_heads": "n_text_head",
    "decoder_layers": "n_text_layer",
}


def hf_tensors(tensors: Tensors, dims: Dims) -> dict[str, NDArray[Any]]:
    """Under the names of transformers' WhisperForConditionalGeneration, its positions and tied output included."""
    found = {f"model.{_hf_name(name)}": _channels_first(name, array) for name, array in tensors.items()}
    kind = tensors["decoder.ln.weight"].dtype
    positions = sinusoids(dims.n_audio_ctx, dims.n_audio_state).astype(kind)
    tied = tensors["decoder.token_embedding.weight"]
    return found | {"model.encoder.embed_positions.weight": positions, "proj_out.weight": tied}


def _hf_name(name: str) -> str:
    if name == "decoder.positional_embedding":
        return "decoder.embed_positions.weight"
    if match := re.fullmatch(r"(encoder|decoder)\.blocks\.(\d+)\.(.+)\.(\w+)", name):
        return f"{match[1]}.layers.{match[2]}.{_PARTS[match[3]]}.{match[4]}"
    layer, _, part = name.rpartition(".")
    return f"{_TOPS.get(layer, layer)}.{part}"


def _channels_first(name: str, array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array.transpose(0, 2, 1)) if name in CONV_WEIGHTS else array


def hf_config(dims: Dims) -> dict[str, Any]:
    sizes = {key: getattr(dims, name) for key, name in _HF_SIZES.items()}
    return {"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], **sizes}


def write_hf_config(directory: Path, dims: Dims, **more: Any) -> None:
    (directory / "config.json").write_text(json.dumps(hf_config(dims) | more))


def write_shards(directory: Path, tensors: Tensors, *, count: int = 3) -> None:
    """The weights in shards with an index, as transformers writes them; any other weights in the directory go."""
    for path in directory.glob("*.safetensors"):
        path.unlink()
    names, where = list(tensors), {}
    for number in range(count):
        shard = f"model-{number + 1:05}-of-{count:05}.safetensors"
        own = {name: tensors[name] for name in names[number::count]}
        save_file(own, directory / shard)
        where |= dict.fromkeys(own, shard)
    (directory / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": where}))


def write_openai(path: Path, tensors: Tensors, dims: Dims) -> Path:
    """As OpenAI publishes them: names with a block's `mlp.0` and `mlp.2`, the encoder's positions among the weights."""
    state = {_openai_name(name): _channels_first(name, array) for name, array in tensors.items()}
    state["encoder.positional_embedding"] = sinusoids(dims.n_audio_ctx, dims.n_audio_state).astype(np.float32)
    sizes = {name: getattr(dims, name) for name in Dims.__dataclass_fields__}
    return write_torch(path, {"dims": sizes, "model_state_dict": state})


def _openai_name(name: str) -> str:
    return re.sub(r"\.mlp([12])\.", lambda match: f".mlp.{2 * int(match[1]) - 2}.", name)
