"""Model directories of mlx-audio's families with random weights, small enough to make in a test.

The files, config keys and weight names are those in which each family is published; the shapes come from mlx-audio's
own classes.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from tokenizers.pre_tokenizers import ByteLevel

Tensors = dict[str, np.ndarray]

WIDTH = 32


def tensors(module: str, config: Mapping[str, Any], seed: int = 0) -> Tensors:
    """Random weights for the model that the config describes: activations stay of order 1, whatever the depth."""
    family = importlib.import_module(f"mlx_audio.stt.models.{module}")
    form = getattr(family, "ModelConfig", None)
    model = family.Model(form.from_dict(json.loads(json.dumps(config))) if form else dict(config))
    rng = np.random.default_rng(seed)
    return {name: _tensor(rng, name, array.shape) for name, array in tree_flatten(model.parameters())}


def _tensor(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    noise = rng.standard_normal(shape)
    if name.endswith("running_var"):
        return np.asarray(1 + 0.1 * np.abs(noise), np.float32)
    if len(shape) > 1:
        return np.asarray(noise * 1.5 / np.sqrt(np.prod(shape[1:])), np.float32)
    centre = 1.0 if name.endswith((".weight", "gamma")) else 0.0
    return np.asarray(centre + 0.1 * noise, np.float32)


def save(directory: Path, found: Tensors) -> None:
    arrays = {name: mx.array(array) for name, array in found.items()}
    mx.save_safetensors(str(directory / "model.safetensors"), arrays, metadata={"format": "pt"})


def write(directory: Path, name: str, value: Any) -> None:
    (directory / name).write_text(json.dumps(value), "utf-8")


def channels_first(array: np.ndarray) -> np.ndarray:
    """A convolution's weight in PyTorch's order: [out, in, kernel...]."""
    return np.ascontiguousarray(np.moveaxis(array, -1, 1)) if array.ndim > 2 else array


# ---- Qwen3-ASR, and VibeVoice-ASR's tokenizer: Qwen's own, with 256 bytes for a vocabulary

ENDS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
SOUND = ("<|audio_start|>", "<|audio_end|>", "<|audio_pad|>", "<|object_ref_start|>", "<|object_ref_end|>")
QWEN_SPECIAL = (*ENDS, *SOUND, "<|box_start|>", "<|audio|>", "<|AUDIO|>", "<|text_chunk_end|>")
QWEN_IDS = {token: 256 + number for number, token in enumerate((*QWEN_SPECIAL, "<asr_text>"))}
QWEN_VOCABULARY = 256 + len(QWEN_IDS)


def qwen_tokenizer(directory: Path) -> None:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [
        {"id": number, "content": token, **flags, "special": token in QWEN_SPECIAL}
        for token, number in QWEN_IDS.items()
    ]
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "merges": []}
    model |= {"end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False}
    model |= {"vocab": {token: number for number, token in enumerate(sorted(ByteLevel.alphabet()))}}
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None}
    tokenizer |= {"pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level, "model": model}
    write(directory, "tokenizer.json", tokenizer)
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    write(directory, "tokenizer_config.json", settings)


def qwen3_asr(directory: Path, seed: int = 0, end: float = 1.2) -> Path:
    """`end` makes the end of the text so much likelier: larger is shorter."""
    directory.mkdir(parents=True)
    audio = {"num_mel_bins": 128, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 64}
    audio |= {"d_model": WIDTH, "output_dim": WIDTH, "downsample_hidden_size": 8, "n_window": 50}
    text = {"vocab_size": QWEN_VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": 2}
    text |= {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "tie_word_embeddings": True}
    ids = {f"audio_{name}_id": QWEN_IDS[f"<|audio_{mark}|>"] for name, mark in _MARKS.items()}
    thinker = {"model_type": "qwen3_asr", "audio_config": audio, "text_config": text, **ids}
    config = {"model_type": "qwen3_asr", "thinker_config": thinker, "support_languages": ["English", "German"]}
    write(directory, "config.json", config)
    found = tensors("qwen3_asr", config, seed)
    found["model.embed_tokens.weight"][QWEN_IDS["<|im_end|>"]] *= end
    save(directory, {f"thinker.{name}": channels_first(array) for name, array in found.items()})
    qwen_tokenizer(directory)
    whisper_extractor(directory, 128)
    return directory


def chat_template(directory: Path) -> None:
    parts = "{% for c in m['content'] %}{{ '<|audio_pad|>' if c['type'] == 'audio' else c['text'] }}{% endfor %}"
    plain = "{% if m['content'] is string %}{{ m['content'] }}{% else %}" + parts + "{% endif %}"
    (directory / "chat_template.jinja").write_text("{% for m in messages %}" + plain + "{% endfor %}", "ascii")


def whisper_extractor(directory: Path, bands: int) -> None:
    extractor = {"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": bands, "sampling_rate": 16_000}
    extractor |= {"hop_length": 160, "n_fft": 400, "chunk_length": 30, "padding_value": 0.0}
    write(directory, "preprocessor_config.json", extractor)


_MARKS = {"token": "pad", "start_token": "start", "end_token": "end"}


def vibevoice_streaming(directory: Path) -> Path:
    """The checkpoint for streams: chunks of 7 frames (0.93 s), of which 1 more is heard ahead."""
    vibevoice_asr(directory)
    geometry = {"chunk_frames": 7, "lookahead_frames": 1, "normalize_audio": False}
    write(directory, "preprocessor_config.json", {"speech_tok_compress_ratio": 3200, **geometry})
    return directory


def vibevoice_asr(directory: Path, seed: int = 0, end: float = 1.2) -> Path:
    directory.mkdir(parents=True)
    encoder = {"encoder_n_filters": 2, "encoder_ratios": [8, 5, 5, 4, 2, 2], "encoder_depths": "1-1-1-1-1-1-1"}
    decoder = {"model_type": "qwen2", "vocab_size": QWEN_VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 64}
    decoder |= {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    config = {
        "model_type": "vibevoice",
        "architectures": ["VibeVoiceForASRTraining"],
        "acoustic_vae_dim": 8,
        "semantic_vae_dim": 8,
        "acoustic_tokenizer_config": {"vae_dim": 8, **encoder},
        "semantic_tokenizer_config": {"vae_dim": 8, **encoder},
        "decoder_config": decoder,
    }
    write(directory, "config.json", config)
    found = tensors("vibevoice_asr", config, seed)
    found["language_model.lm_head.weight"][QWEN_IDS["<|im_end|>"]] *= end
    save(directory, {_vibevoice_name(name): channels_first(array) for name, array in found.items()})
    qwen_tokenizer(directory)
    return directory


def _vibevoice_name(name: str) -> str:
    """As Microsoft publishes it."""
    if name.startswith("language_model.lm_head"):
        return name.removeprefix("language_model.")
    name = name.replace("language_model.model.", "language_model.")
    name = re.sub(r"\.downsample_layers\.(\d+)\.conv\.", r".downsample_layers.\1.0.conv.conv.", name)
    name = name.replace(".head.conv.", ".head.conv.conv.").replace(".mixer.conv.conv.", ".mixer.conv.conv.conv.")
    return f"model.{name}"


# ---- Cohere ASR: SentencePiece

COHERE_SPECIAL = (
    *("<|startofcontext|>", "<|startoftranscript|>", "<|endoftext|>", "<|emo:undefined|>", "<|pnc|>", "<|nopnc|>"),
    *("<|noitn|>", "<|notimestamp|>", "<|nodiarize|>", "<|en|>", "<|de|>", "<|fr|>"),
)


def sentencepiece(path: Path, special: tuple[str, ...]) -> None:
    import sentencepiece as spm

    text = iter(["the quick brown fox jumps over the lazy dog", "pack my box with five dozen liquor jugs"] * 20)
    settings = {"vocab_size": 80 + len(special), "hard_vocab_limit": False, "minloglevel": 2}
    with path.open("wb") as model:
        spm.SentencePieceTrainer.train(
            sentence_iterator=text, model_writer=model, user_defined_symbols=list(special), pad_id=3, **settings
        )


def cohere_asr(directory: Path, seed: int = 0, end: float = 1.2) -> Path:
    directory.mkdir(parents=True)
    sentencepiece(directory / "tokenizer.model", COHERE_SPECIAL)
    import sentencepiece as spm

    pieces = spm.SentencePieceProcessor(model_file=str(directory / "tokenizer.model"))
    vocabulary = pieces.get_piece_size()
    encoder = {"feat_in": 80, "n_layers": 2, "d_model": WIDTH, "n_heads": 2, "subsampling_conv_channels": 8}
    decoder = {"hidden_size": 24, "inner_size": 48, "num_attention_heads": 2, "num_layers": 2}
    config = {
        "model_type": "cohere_asr",
        "vocab_size": vocabulary,
        "encoder": encoder,
        "transf_decoder": {"config_dict": {**decoder, "max_sequence_length": 256}},
        "head": {"hidden_size": 24, "num_classes": vocabulary},
        "preprocessor": {"features": 80},
        "supported_languages": ["en", "de", "fr"],
    }
    write(directory, "config.json", config)
    found = tensors("cohere_asr", config, seed)
    del found["transf_decoder.embedding.position_embedding.pos_enc"]
    found["log_softmax.mlp.layer0.weight"][pieces.piece_to_id("<|endoftext|>")] *= end
    save(directory, {_cohere_name(name): channels_first(array) for name, array in found.items()})
    write(directory, "tokenizer_config.json", {"additional_special_tokens": list(COHERE_SPECIAL)})
    return directory


def _cohere_name(name: str) -> str:
    for part in ("embedding", "decoder"):
        name = name.replace(f"transf_decoder.{part}.", f"transf_decoder._{part}.")
    return name


# ---- Parakeet: NVIDIA's config, MLX's weights, the vocabulary inside the config

PARAKEET_WORDS = ["<unk>", "▁", ".", *(f"▁{letter}" for letter in "abcdefgh"), *"ijklmnopqrst"]
PARAKEET_CLASS = "nemo.collections.asr.models."
PARAKEET_TARGETS = {
    "tdt": f"{PARAKEET_CLASS}rnnt_bpe_models.EncDecRNNTBPEModel",
    "rnnt": f"{PARAKEET_CLASS}rnnt_bpe_models.EncDecRNNTBPEModel",
    "ctc": f"{PARAKEET_CLASS}ctc_bpe_models.EncDecCTCModelBPE",
}


def parakeet(directory: Path, seed: int = 0, kind: str = "tdt") -> Path:
    directory.mkdir(parents=True)
    durations = [0, 1, 2, 3, 4] if kind == "tdt" else []
    count = len(PARAKEET_WORDS)
    encoder = {"feat_in": 80, "n_layers": 2, "d_model": WIDTH, "n_heads": 2, "ff_expansion_factor": 2}
    encoder |= {"subsampling_factor": 8, "self_attention_model": "rel_pos", "subsampling": "dw_striding"}
    encoder |= {"conv_kernel_size": 9, "subsampling_conv_channels": 8, "pos_emb_max_len": 500}
    preprocessor = {"sample_rate": 16_000, "normalize": "per_feature", "window_size": 0.025, "window_stride": 0.01}
    preprocessor |= {"window": "hann", "features": 80, "n_fft": 512, "dither": 1e-5}
    prediction = {"pred_hidden": 16, "pred_rnn_layers": 2, "rnn_hidden_size": 16}
    joint = {"joint_hidden": 16, "activation": "relu", "encoder_hidden": WIDTH, "pred_hidden": 16}
    config: dict[str, Any] = {
        "target": PARAKEET_TARGETS[kind],
        "preprocessor": preprocessor,
        "encoder": encoder,
        "decoder": {"blank_as_pad": True, "vocab_size": count, "prednet": prediction},
        "joint": {"num_classes": count, "vocabulary": PARAKEET_WORDS, "jointnet": joint},
        "decoding": {"greedy": {"max_symbols": 10}},
    }
    if kind == "tdt":
        config["model_defaults"] = {"tdt_durations": durations}
        config["decoding"] |= {"model_type": "tdt", "durations": durations}
        config["joint"]["num_extra_outputs"] = len(durations)
    if kind == "ctc":
        config["decoder"] = {"feat_in": WIDTH, "num_classes": count, "vocabulary": PARAKEET_WORDS}
    write(directory, "config.json", config)
    found = tensors("parakeet", config, seed)
    save(directory, found)
    return directory


Maker = Callable[[Path], Path]
NAMED: dict[str, Maker] = {
    "parakeet": parakeet,
    "qwen3_asr": qwen3_asr,
    "cohere_asr": cohere_asr,
    "vibevoice_asr": vibevoice_asr,
}

# ---- families that go one by one, or by equal lengths


def moonshine(directory: Path, seed: int = 0) -> Path:
    directory.mkdir(parents=True)
    config = {"model_type": "moonshine", "vocab_size": QWEN_VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 64}
    config |= {"encoder_num_hidden_layers": 2, "decoder_num_hidden_layers": 2, "max_position_embeddings": 64}
    config |= {"encoder_num_attention_heads": 2, "decoder_num_attention_heads": 2}
    config |= {"bos_token_id": QWEN_IDS["<|im_start|>"], "decoder_start_token_id": QWEN_IDS["<|im_start|>"]}
    config |= {"eos_token_id": QWEN_IDS["<|im_end|>"]}
    write(directory, "config.json", config)
    found = tensors("moonshine", config, seed)
    save(directory, {f"model.{name}": channels_first(array) for name, array in found.items()})
    qwen_tokenizer(directory)
    return directory


def sensevoice(directory: Path, seed: int = 0) -> Path:
    """Its special tokens have fixed numbers below 16; the language is told by one far beyond a tiny vocabulary."""
    directory.mkdir(parents=True)
    letters = [f"▁{letter}" for letter in "abcdefgh"] + list("ijklmnopqrstuvw")
    encoder = {"output_size": WIDTH, "attention_heads": 2, "linear_units": 64, "num_blocks": 2, "tp_blocks": 1}
    config = {"model_type": "sensevoice", "vocab_size": len(letters) + 1, "input_size": 560, "encoder_conf": encoder}
    write(directory, "config.json", config)
    found = tensors("sensevoice", config, seed)
    save(directory, {name: channels_first(array) for name, array in found.items()})
    write(directory, "tokens.json", ["<blank>", *letters])
    return directory


def wav2vec2(directory: Path, seed: int = 0) -> Path:
    directory.mkdir(parents=True)
    letters = ["<pad>", "<s>", "</s>", "<unk>", "|", *"ETAONIHSRDLUMWCFGYPBVK'XJQZ"]
    config = {"model_type": "wav2vec2", "architectures": ["Wav2Vec2ForCTC"], "vocab_size": len(letters)}
    config |= {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config |= {"conv_dim": [16] * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
    write(directory, "config.json", config)
    found = tensors("mms", config, seed)
    save(directory, {name: array.swapaxes(1, 2) if _is_sound(name) else array for name, array in found.items()})
    write(directory, "vocab.json", {letter: number for number, letter in enumerate(letters)})
    return directory


def _is_sound(name: str) -> bool:
    return name.endswith((".conv.weight", ".weight_v", ".weight_g"))


def canary(directory: Path, seed: int = 0) -> Path:
    directory.mkdir(parents=True)
    sentencepiece(directory / "tokenizer.model", COHERE_SPECIAL)
    import sentencepiece as spm

    vocabulary = spm.SentencePieceProcessor(model_file=str(directory / "tokenizer.model")).get_piece_size()
    encoder = {"feat_in": 80, "n_layers": 2, "d_model": WIDTH, "n_heads": 2, "subsampling_conv_channels": 8}
    decoder = {"num_layers": 2, "hidden_size": WIDTH, "num_attention_heads": 2, "inner_size": 64}
    config = {"model_type": "canary", "vocab_size": vocabulary, "enc_output_dim": WIDTH, "encoder": encoder}
    config |= {"transf_decoder": decoder, "preprocessor": {"features": 80}}
    write(directory, "config.json", config)
    save(directory, tensors("canary", config, seed))
    return directory


def glmasr(directory: Path, seed: int = 0) -> Path:
    directory.mkdir(parents=True)
    whisper = {"d_model": WIDTH, "encoder_attention_heads": 2, "encoder_ffn_dim": 64, "encoder_layers": 2}
    language = {"vocab_size": QWEN_VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": 2}
    language |= {"num_attention_heads": 2, "num_key_value_heads": 1, "eos_token_id": [QWEN_IDS["<|im_end|>"]]}
    config = {"model_type": "glmasr", "whisper_config": whisper | {"num_mel_bins": 128}, "lm_config": language}
    write(directory, "config.json", config)
    save(directory, tensors("glmasr", config, seed))
    qwen_tokenizer(directory)
    return directory


def granite_speech(directory: Path, seed: int = 0) -> Path:
    directory.mkdir(parents=True)
    encoder = {"num_layers": 2, "hidden_dim": WIDTH, "num_heads": 2, "dim_head": 16, "output_dim": 12}
    projector = {"hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    text = {"vocab_size": QWEN_VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": 2}
    text |= {"num_attention_heads": 2, "num_key_value_heads": 1, "attention_multiplier": 0.25}
    text |= {"embedding_multiplier": 1.0, "logits_scaling": 1.0, "residual_multiplier": 1.0}
    config = {"model_type": "granite_speech", "encoder_config": encoder, "text_config": text}
    config |= {"projector_config": projector | {"encoder_hidden_size": WIDTH}}
    config |= {"audio_token_index": QWEN_IDS["<|audio|>"]}
    write(directory, "config.json", config)
    save(directory, tensors("granite_speech", config, seed))
    qwen_tokenizer(directory)
    return directory


def fireredasr2(directory: Path, seed: int = 1) -> Path:
    directory.mkdir(parents=True)
    letters = ["<blank>", "<unk>", "<pad>", "<sos>", "<eos>", *(f"▁{one}" for one in "abcdefgh"), *"ijklmnopqrst"]
    part = {"n_layers": 2, "n_head": 2, "d_model": WIDTH, "pe_maxlen": 600}
    config = {"model_type": "fireredasr2", "idim": 80, "odim": len(letters), "d_model": WIDTH}
    config |= {"encoder": part | {"kernel_size": 9}, "decoder": part}
    write(directory, "config.json", config)
    found = tensors("fireredasr2", config, seed)
    save(directory, {name: channels_first(array) if "conv" in name else array for name, array in found.items()})
    (directory / "dict.txt").write_text("".join(f"{one} {n}\n" for n, one in enumerate(letters)), "utf-8")
    write(directory, "cmvn.json", {"means": [10.0] * 80, "istd": [0.3] * 80})
    return directory


def granite_speech5_ctc(directory: Path, seed: int = 0) -> Path:
    directory.mkdir(parents=True)
    encoder = {"vocab_size": QWEN_VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": 3}
    encoder |= {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16, "context_size": 32}
    config = {"model_type": "granite_speech5_ctc", "vocab_size": QWEN_VOCABULARY, "encoder_config": encoder}
    write(directory, "config.json", config)
    save(directory, tensors("granite_speech5_ctc", config, seed))
    qwen_tokenizer(directory)
    return directory


def qwen2_audio(directory: Path, seed: int = 0) -> Path:
    directory.mkdir(parents=True)
    audio = {"d_model": WIDTH, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 64}
    text = {"vocab_size": QWEN_VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": 2}
    text |= {"num_attention_heads": 2, "num_key_value_heads": 2}
    config = {"model_type": "qwen2_audio", "audio_config": audio, "text_config": text}
    config |= {"audio_token_id": QWEN_IDS["<|AUDIO|>"]}
    write(directory, "config.json", config)
    found = tensors("qwen2_audio", config, seed)
    save(directory, {name: channels_first(array) for name, array in found.items()})
    qwen_tokenizer(directory)
    whisper_extractor(directory, 128)
    chat_template(directory)
    return directory


def moss_transcribe_diarize(directory: Path, seed: int = 0) -> Path:
    directory.mkdir(parents=True)
    audio = {"num_mel_bins": 80, "d_model": WIDTH, "encoder_layers": 2, "encoder_attention_heads": 2}
    text = {"vocab_size": QWEN_VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": 2}
    text |= {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
    config = {"model_type": "moss_transcribe_diarize", "audio_config": audio | {"encoder_ffn_dim": 64}}
    config |= {"text_config": text, "audio_token_id": QWEN_IDS["<|audio_pad|>"]}
    write(directory, "config.json", config)
    save(directory, tensors("moss_transcribe_diarize", config, seed))
    qwen_tokenizer(directory)
    whisper_extractor(directory, 80)
    chat_template(directory)
    return directory


def nemotron_asr(directory: Path, seed: int = 0) -> Path:
    directory.mkdir(parents=True)
    count = len(PARAKEET_WORDS)
    encoder = {"feat_in": 80, "n_layers": 2, "d_model": WIDTH, "n_heads": 2, "subsampling_conv_channels": 8}
    languages = {"en-US": 0, "de-DE": 1, "auto": 2}
    config = {
        "model_type": "nemotron_asr",
        "preprocessor": {"features": 80},
        "encoder": encoder,
        "prompt": {"num_prompts": 4, "prompt_hidden": 64, "prompt_dictionary": languages},
        "decoder": {"pred_hidden": 16, "pred_rnn_layers": 1, "vocab_size": count},
        "joint": {"joint_hidden": 16, "encoder_hidden": WIDTH, "pred_hidden": 16, "num_classes": count},
        "vocabulary": PARAKEET_WORDS,
    }
    write(directory, "config.json", config)
    save(directory, tensors("nemotron_asr", config, seed))
    return directory


MAKERS: dict[str, Maker] = {
    **NAMED,
    "vibevoice_streaming": vibevoice_streaming,
    "sensevoice": sensevoice,
    "wav2vec2": wav2vec2,
    "moonshine": moonshine,
    "canary": canary,
    "glmasr": glmasr,
    "granite_speech": granite_speech,
    "nemotron_asr": nemotron_asr,
    "fireredasr2": fireredasr2,
    "granite_speech5_ctc": granite_speech5_ctc,
    "qwen2_audio": qwen2_audio,
    "moss_transcribe_diarize": moss_transcribe_diarize,
}


def quantized(directory: Path, plain: Path) -> Path:
    """Quantize a Qwen3-ASR directory in place, 4 bits; `plain` becomes the same model with the rounded numbers."""
    import shutil

    import mlx.nn as nn

    from mlxbatch.engines.families import QWEN3
    from mlxbatch.engines.mlx_audio.loading import load, network_of

    shutil.copytree(directory, plain)
    network = network_of(load(directory, QWEN3, mx.float32, dequantized=False))
    kept = network.model_quant_predicate
    nn.quantize(
        network, 32, 4, class_predicate=lambda path, layer: hasattr(layer, "to_quantized") and kept(path, layer)
    )
    packed = dict(tree_flatten(network.parameters()))
    mx.save_safetensors(str(directory / "model.safetensors"), packed)
    config = json.loads((directory / "config.json").read_text("utf-8"))
    write(directory, "config.json", config | {"quantization": {"group_size": 32, "bits": 4}})
    rounded = {name: array for name, array in packed.items() if not name.endswith((".scales", ".biases"))}
    for name in packed:
        if name.endswith(".scales"):
            layer = name.removesuffix(".scales")
            parts = (packed[f"{layer}.{part}"] for part in ("weight", "scales", "biases"))
            rounded[f"{layer}.weight"] = mx.dequantize(*parts, group_size=32, bits=4)
    mx.save_safetensors(str(plain / "model.safetensors"), rounded)
    return plain
