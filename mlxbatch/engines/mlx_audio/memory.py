"""How many bytes a piece of audio will take, from the sizes in config.json: arithmetic, no device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mlxbatch.vad.band import SAMPLE_RATE as HEARD_RATE
from mlxbatch.vad.layout import ROW_BYTES

# Values of the widest kind that are alive at once in a layer: input, norm, projections, the feed-forward's four-fold.
LIVE = 16
TEXT_PER_SECOND = 16  # tokens, as decoding.TOKENS_PER_SECOND
# Bytes of features for a second of audio (measured: 0.63 MB for 128 mel bands), and of the convolutions over them for
# each of their channels: 50 frames of 64 bands, up to 6 copies (measured: 2.4 in NVIDIA's and Cohere's, 5.8 in Qwen's).
FEATURES = 800_000
CONVOLUTIONS = 6 * 4 * 50 * 64
# Encoders over raw samples (VibeVoice-ASR): copies of samples x filters that are alive (measured: 17.5) until mlx-audio
# works in parts, from so many of them on; beyond that what goes in and comes out stays whole.
RAW_COPIES, RAW_PART, RAW_REST = 18, 64 * 2**20, 4


@dataclass(frozen=True, slots=True)
class Sizes:
    """The largest of each kind that a config names, whatever part of the model has it: an upper bound."""

    width: int
    layers: int
    heads: int
    kv_width: int
    vocabulary: int
    channels: int  # of the convolutions over features
    filters: int  # of those over raw samples
    rate: float  # encoder frames, or sound tokens, per second


_WIDTH = frozenset({"d_model", "hidden_size", "output_dim", "output_size", "pred_hidden", "joint_hidden", "dim"})
_LAYERS = frozenset({"n_layers", "num_layers", "num_hidden_layers", "encoder_layers", "pred_rnn_layers", "num_blocks"})
_HEADS = frozenset({"n_heads", "num_attention_heads", "encoder_attention_heads", "attention_heads"})
_VOCABULARY = frozenset({"vocab_size", "num_classes"})


def sizes(config: Mapping[str, Any], rate: float) -> Sizes:
    """The sizes in a config.json, at any depth; what it does not name is taken from the common models."""
    width, heads = _most(config, _WIDTH, 512), _most(config, _HEADS, 8)
    kv_heads = _most(config, frozenset({"num_key_value_heads"}), heads)
    head_width = _most(config, frozenset({"head_dim"}), max(1, width // heads))
    layers, vocabulary = _most(config, _LAYERS, 12), _most(config, _VOCABULARY, 1024)
    channels = _most(config, frozenset({"subsampling_conv_channels", "downsample_hidden_size"}), 0)
    filters = _most(config, frozenset({"encoder_n_filters"}), 0)
    return Sizes(width, layers, heads, kv_heads * head_width, vocabulary, channels, filters, rate)


def need(sizes: Sizes, seconds: float, piece: float, sample_rate: int, item: int, *, tiled: bool, listens: bool) -> int:
    """Bytes that one row of a batch adds: its samples, features, activations, scores, caches and logits.

        samples       4 * sample_rate * seconds, of the whole recording; all the rest is of one piece of it
        features      (800,000 + 76,800 * channels) * piece
        raw samples   4 * (18 up to 64 Mi, 4 beyond) * filters * sample_rate * piece
        layers        item * 16 * width * frames
        scores        8 * heads * frames^2, none where attention is `tiled`
        caches        4 * item * layers * kv_width * (frames + tokens): keys and values, twice while they grow
        logits        32 * vocabulary
        speech        32 MB where the engine `listens` for it; at another rate than 16 kHz 64,000 * seconds more

    `frames` are the encoder's frames or sound tokens of the piece, `item` is the bytes of a weight.
    """
    part = min(seconds, piece)
    frames = int(sizes.rate * part) + 64
    tokens = int(TEXT_PER_SECOND * part) + 64
    raw = sizes.filters * sample_rate * part
    raw = RAW_COPIES * min(raw, RAW_PART) + RAW_REST * max(0.0, raw - RAW_PART)
    sound = (FEATURES + CONVOLUTIONS * sizes.channels) * part + 4 * (sample_rate * seconds + raw)
    scores = 0 if tiled else 8 * sizes.heads * frames**2
    caches = 4 * item * sizes.layers * sizes.kv_width * (frames + tokens)
    own = int(sound) + item * LIVE * sizes.width * frames + scores + caches + 32 * sizes.vocabulary
    return own + (_listening(seconds, sample_rate) if listens else 0)


def _listening(seconds: float, sample_rate: int) -> int:
    """What finding a recording's speech takes beside its samples: a row of the detector, which hears them at 16 kHz."""
    return ROW_BYTES + (0 if sample_rate == HEARD_RATE else int(4 * HEARD_RATE * seconds))


def _most(config: Any, keys: frozenset[str], otherwise: int) -> int:
    return max((value for key, value in _numbers(config) if key in keys), default=otherwise)


def _numbers(config: Any) -> Iterator[tuple[str, int]]:
    """All whole numbers above 0 in a tree of dictionaries, with their keys."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _numbers(value)
        elif isinstance(value, int) and not isinstance(value, bool) and value > 0:
            yield key, value
