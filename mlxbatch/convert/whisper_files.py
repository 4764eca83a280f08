"""The files beside a Whisper's weights, made where a source has none: config.json, and what decoding goes by."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mlxbatch.convert.whisper_tokenizer import END, NO_TIMESTAMPS, START
from mlxbatch.engines.whisper.layout import Dims

SAMPLE_RATE = 16_000
HOP_LENGTH = 160
WINDOW_LENGTH = 400
CHUNK_SECONDS = 30


def model_config(dims: Dims) -> dict[str, Any]:
    """config.json with MLX's keys; `model_type` is what mlx-audio and transformers choose the model by."""
    sizes = {name: getattr(dims, name) for name in Dims.__dataclass_fields__}
    return {"model_type": "whisper", **sizes}


def generation_config(
    heads: Sequence[Sequence[int]], tokenizer: Mapping[str, Any], dims: Dims, *, multilingual: bool
) -> dict[str, Any]:
    """generation_config.json: the heads that align words, (layer, head) each, and the tokens that begin and end.

    Raises ValueError where the tokenizer is no Whisper's.
    """
    ids = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    for token in (START, END, NO_TIMESTAMPS):
        if token not in ids:
            raise ValueError(f"tokenizer.json: no {token}: not a Whisper's")
    return {
        "alignment_heads": [list(head) for head in heads],
        "decoder_start_token_id": ids[START],
        "eos_token_id": ids[END],
        "is_multilingual": multilingual,
        "max_length": dims.n_text_ctx,
        "no_timestamps_token_id": ids[NO_TIMESTAMPS],
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


def as_json(value: Mapping[str, Any]) -> bytes:
    """A file's content."""
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()
