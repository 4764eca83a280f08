"""Names and shapes of a Whisper checkpoint: the sizes in its config, its weights, Hugging Face's names for them.

The names are those of mlx-audio's Whisper, which follow OpenAI's. Convolutions are stored as [out, kernel, in], the
order of `mlx.nn.Conv1d`; Hugging Face stores [out, in, kernel]. The encoder's positions are sinusoids that every
loader computes, so they are no weight.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from mlxbatch.models.weights import Shape

# Lengths of the self-attention cache, and the model's context last. Few shapes, so that MLX's buffer cache stays small;
# short texts pay for 64 only.
CACHE_LENGTHS = (64, 128, 256)
# Start of transcript, language and task: a prompt without text before it.
BARE = 3

CONV_KERNEL = 3
MLP_RATIO = 4
CONV_WEIGHTS = frozenset({"encoder.conv1.weight", "encoder.conv2.weight"})

_HUGGING_FACE_KEYS = {
    "n_mels": "num_mel_bins",
    "n_audio_ctx": "max_source_positions",
    "n_audio_state": "d_model",
    "n_audio_head": "encoder_attention_heads",
    "n_audio_layer": "encoder_layers",
    "n_vocab": "vocab_size",
    "n_text_ctx": "max_target_positions",
    "n_text_state": "d_model",
    "n_text_head": "decoder_attention_heads",
    "n_text_layer": "decoder_layers",
}

# Hugging Face's name parts -> ours. The module that follows `layers.N.` decides, so the order does not matter.
_BLOCK_PARTS = {
    "self_attn.q_proj": "attn.query",
    "self_attn.k_proj": "attn.key",
    "self_attn.v_proj": "attn.value",
    "self_attn.out_proj": "attn.out",
    "self_attn_layer_norm": "attn_ln",
    "encoder_attn.q_proj": "cross_attn.query",
    "encoder_attn.k_proj": "cross_attn.key",
    "encoder_attn.v_proj": "cross_attn.value",
    "encoder_attn.out_proj": "cross_attn.out",
    "encoder_attn_layer_norm": "cross_attn_ln",
    "fc1": "mlp1",
    "fc2": "mlp2",
    "final_layer_norm": "mlp_ln",
}
_TOP_PARTS = {
    "encoder.layer_norm": "encoder.ln_post",
    "decoder.layer_norm": "decoder.ln",
    "decoder.embed_tokens": "decoder.token_embedding",
}
_DROPPED = frozenset({"encoder.embed_positions.weight", "proj_out.weight"})
_BLOCK = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(.+)\.(\w+)")


@dataclass(frozen=True, slots=True)
class Dims:
    """Sizes of a Whisper model, under OpenAI's names.

    `n_audio_ctx` counts encoder positions (20 ms each, 1500 for 30 s); `n_mels` is 80, or 128 from large-v3 on.
    """

    n_mels: int
    n_audio_ctx: int
    n_audio_state: int
    n_audio_head: int
    n_audio_layer: int
    n_vocab: int
    n_text_ctx: int
    n_text_state: int
    n_text_head: int
    n_text_layer: int

    def __post_init__(self) -> None:
        for side, state, heads in (
            ("audio", self.n_audio_state, self.n_audio_head),
            ("text", self.n_text_state, self.n_text_head),
        ):
            if state % heads:
                raise ValueError(f"n_{side}_state is {state}, which n_{side}_head = {heads} does not divide")
        if self.n_audio_state != self.n_text_state:
            raise ValueError(f"n_audio_state is {self.n_audio_state} but n_text_state is {self.n_text_state}")

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Dims:
        """Read a config.json with either MLX's keys or Hugging Face's.

        Raises ValueError that names the missing or invalid key; no size has a default, a wrong guess would load.
        """
        # The test is mlx-audio's own, so that one file means the same model to both.
        hugging_face = "d_model" in config or "encoder_layers" in config
        names = [field.name for field in fields(cls)]
        keys = {name: _HUGGING_FACE_KEYS[name] if hugging_face else name for name in names}
        return cls(**{name: _positive(config, key) for name, key in keys.items()})


def _positive(config: Mapping[str, Any], key: str) -> int:
    if key not in config:
        raise ValueError(f"key {key!r} is missing")
    value = config[key]
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"key {key!r} must be a whole number above 0, not {value!r}")
    return value


def expected_shapes(dims: Dims) -> dict[str, Shape]:
    """Every weight a Whisper of these sizes must have, and its unquantized shape."""
    return dict([*_encoder(dims), *_decoder(dims)])


def _encoder(dims: Dims) -> Iterator[tuple[str, Shape]]:
    state = dims.n_audio_state
    for conv, channels in (("conv1", dims.n_mels), ("conv2", state)):
        yield f"encoder.{conv}.weight", (state, CONV_KERNEL, channels)
        yield f"encoder.{conv}.bias", (state,)
    for layer in range(dims.n_audio_layer):
        yield from _block(f"encoder.blocks.{layer}", state, cross=False)
    yield from _norm("encoder.ln_post", state)


def _decoder(dims: Dims) -> Iterator[tuple[str, Shape]]:
    state = dims.n_text_state
    yield "decoder.token_embedding.weight", (dims.n_vocab, state)
    yield "decoder.positional_embedding", (dims.n_text_ctx, state)
    for layer in range(dims.n_text_layer):
        yield from _block(f"decoder.blocks.{layer}", state, cross=True)
    yield from _norm("decoder.ln", state)


def _block(prefix: str, state: int, *, cross: bool) -> Iterator[tuple[str, Shape]]:
    for attention in ("attn", "cross_attn") if cross else ("attn",):
        for part in ("query", "key", "value", "out"):
            # Whisper's keys have no bias: a constant added to every key's score cancels in the softmax.
            yield from _linear(f"{prefix}.{attention}.{part}", state, state, bias=part != "key")
        yield from _norm(f"{prefix}.{attention}_ln", state)
    yield from _linear(f"{prefix}.mlp1", MLP_RATIO * state, state)
    yield from _linear(f"{prefix}.mlp2", state, MLP_RATIO * state)
    yield from _norm(f"{prefix}.mlp_ln", state)


def _linear(name: str, rows: int, columns: int, *, bias: bool = True) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (rows, columns)
    if bias:
        yield f"{name}.bias", (rows,)


def _norm(name: str, state: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (state,)
    yield f"{name}.bias", (state,)


def is_hugging_face(names: Iterable[str]) -> bool:
    """Whether weights of these names come from Hugging Face, and so need `CONV_WEIGHTS` transposed."""
    return any(name.startswith("model.") or ".layers." in name for name in names)


def canonical_name(hf_name: str) -> str | None:
    """A Hugging Face weight's name in the MLX layout; None where MLX has no such weight.

    Dropped are the encoder's positions (computed) and `proj_out` (tied to the token embedding). Names that are
    already MLX's, and unknown ones, come back as they are; `.scales` and `.biases` of quantized layers follow
    their layer.
    """
    name = hf_name.removeprefix("model.")
    if name in _DROPPED:
        return None
    if name == "decoder.embed_positions.weight":
        return "decoder.positional_embedding"
    if match := _BLOCK.fullmatch(name):
        side, layer, part, kind = match.groups()
        return f"{side}.blocks.{layer}.{_BLOCK_PARTS.get(part, part)}.{kind}"
    part, _, kind = name.rpartition(".")
    return f"{_TOP_PARTS[part]}.{kind}" if part in _TOP_PARTS else name


def mlx_shape(name: str, shape: Shape, *, hugging_face: bool) -> Shape:
    """The shape of weight `name` (canonical) once it is in MLX's layout: convolutions [out, in, k] -> [out, k, in]."""
    if hugging_face and name in CONV_WEIGHTS and len(shape) == 3:
        return (shape[0], shape[2], shape[1])
    return shape
