"""A complete Whisper directory with random weights, small enough to make in a test: 2 layers, 64 wide."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers.pre_tokenizers import ByteLevel

from mlxbatch.engines.whisper.layout import Dims, expected_shapes
from mlxbatch.languages import LANGUAGES

LANGUAGE_CODES = list(LANGUAGES)[:99]  # the 100th, Cantonese, came with large-v3
MERGES = [("Ġ", "t"), ("Ġt", "h"), ("Ġth", "e"), ("Ġ", "a"), ("Ġa", "n"), ("Ġan", "d")]
TASKS = ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
SPECIAL = ["<|endoftext|>", "<|startoftranscript|>", *(f"<|{code}|>" for code in LANGUAGE_CODES), *TASKS]
TIMESTAMPS = [f"<|{step * 0.02:.2f}|>" for step in range(1501)]
TEXT = [*sorted(ByteLevel.alphabet()), *("".join(pair) for pair in MERGES)]
TOKEN_IDS = {token: number for number, token in enumerate([*TEXT, *SPECIAL, *TIMESTAMPS])}

TINY_DIMS = Dims(
    n_mels=80,
    n_audio_ctx=1500,
    n_audio_state=64,
    n_audio_head=2,
    n_audio_layer=2,
    n_vocab=len(TOKEN_IDS),
    n_text_ctx=448,
    n_text_state=64,
    n_text_head=2,
    n_text_layer=2,
)


def write_tiny_whisper(directory: Path, *, seed: int = 0) -> Path:
    """Make `directory` a whole Whisper in MLX's layout (float16); the same seed gives the same bytes."""
    directory.mkdir(parents=True, exist_ok=True)
    save_file(tiny_tensors(seed), directory / "model.safetensors", metadata={"format": "mlx"})
    write_json(directory / "config.json", tiny_config())
    write_json(directory / "generation_config.json", tiny_generation_config())
    write_json(directory / "tokenizer.json", tiny_tokenizer())
    write_json(directory / "tokenizer_config.json", {"tokenizer_class": "WhisperTokenizer", **_ends()})
    write_json(directory / "preprocessor_config.json", tiny_preprocessor_config())
    return directory


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False), "utf-8")


def write_bare_whisper(directory: Path, n_vocab: int, *, archive: bool = False) -> Path:
    """As the first conversions for MLX were published: config.json and weights, no tokenizer or processor files.

    The vocabulary has the true size, the texts are short. `archive`: the weights as weights.npz.
    """
    directory.mkdir(parents=True)
    mels = 128 if n_vocab == 51_866 else 80
    dims = replace(TINY_DIMS, n_vocab=n_vocab, n_mels=mels, n_text_ctx=64, n_audio_state=32, n_text_state=32)
    tensors = tiny_tensors(dims=dims)
    if archive:
        np.savez(directory / "weights.npz", **tensors)  # type: ignore[arg-type]
    else:
        save_file(tensors, directory / "weights.safetensors", metadata={"format": "mlx"})
    write_json(directory / "config.json", tiny_config(dims))
    return directory


def tiny_config(dims: Dims = TINY_DIMS) -> dict[str, Any]:
    return {"model_type": "whisper"} | asdict(dims)


def tiny_tensors(seed: int = 0, dims: Dims = TINY_DIMS) -> dict[str, NDArray[np.float16]]:
    """Every weight: matrices scaled by their fan-in, so that activations and logits are of order 1; norms near 1."""
    rng = np.random.default_rng(seed)
    return {name: _tensor(rng, name, shape) for name, shape in expected_shapes(dims).items()}


def _tensor(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> NDArray[np.float16]:
    noise = rng.standard_normal(shape)
    if len(shape) > 1:
        return np.asarray(noise * 2 / np.sqrt(np.prod(shape[1:])), np.float16)
    centre = 1.0 if name.endswith(".weight") else 0.0  # the only weights of rank 1 are the layer norms'
    return np.asarray(centre + 0.05 * noise, np.float16)


def tiny_generation_config() -> dict[str, Any]:
    return {
        "alignment_heads": [[1, 0], [1, 1]],
        "begin_suppress_tokens": [TOKEN_IDS["Ġ"], TOKEN_IDS["<|endoftext|>"]],
        "decoder_start_token_id": TOKEN_IDS["<|startoftranscript|>"],
        "eos_token_id": TOKEN_IDS["<|endoftext|>"],
        "is_multilingual": True,
        "no_timestamps_token_id": TOKEN_IDS["<|notimestamps|>"],
        "suppress_tokens": [TOKEN_IDS[token] for token in ('"', "#", "(", ")", *TASKS[:5])],
    }


def tiny_tokenizer(*, timestamps: bool = True) -> dict[str, Any]:
    """tokenizer.json of a byte-level BPE with Whisper's tokens in Whisper's order; optionally as CTranslate2 has it."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    added = [_added(token, special=True) for token in SPECIAL]
    if timestamps:
        added += [_added(token, special=False) for token in TIMESTAMPS]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {token: TOKEN_IDS[token] for token in TEXT},
            "merges": [list(pair) for pair in MERGES],
        },
    }


def _added(token: str, *, special: bool) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": TOKEN_IDS[token], "content": token, **flags, "special": special}


def _ends() -> dict[str, str]:
    return dict.fromkeys(("bos_token", "eos_token", "pad_token", "unk_token"), "<|endoftext|>")


def tiny_preprocessor_config() -> dict[str, Any]:
    return {
        "feature_extractor_type": "WhisperFeatureExtractor",
        "processor_class": "WhisperProcessor",
        "feature_size": TINY_DIMS.n_mels,
        "sampling_rate": 16_000,
        "hop_length": 160,
        "n_fft": 400,
        "chunk_length": 30,
        "n_samples": 480_000,
        "nb_max_frames": 3000,
        "padding_side": "right",
        "padding_value": 0.0,
        "return_attention_mask": False,
    }
