"""The Whisper network (Radford et al. 2022), with the parameter names of mlx-audio's, so that its weights load as is.

Differs in what batching needs: keys and values of the audio are made once per window, the decoder's own go into a cache
that the caller owns, and positions are per row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

from mlxbatch import kernels
from mlxbatch.engines import quantizing
from mlxbatch.engines.whisper import layout
from mlxbatch.models.architecture import quantization

KeysValues = tuple[mx.array, mx.array]
"""Keys and values, each [n, heads, t, d]."""

Watch = Callable[[int, mx.array], None]
"""Is shown what each layer of the decoder looks for in the audio: its number, and its queries [n, heads, t, d]."""


class SelfCache(Protocol):
    """Where the decoder's keys and values go, layer by layer."""

    def append(self, layer: int, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array, mx.array | None]:
        """Add [n, heads, t, d]; returns all keys, all values and the boolean mask of those each query may see."""
        ...


class Attention(nn.Module):
    def __init__(self, n_state: int, n_head: int) -> None:
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(n_state, n_state)
        self.key = nn.Linear(n_state, n_state, bias=False)
        self.value = nn.Linear(n_state, n_state)
        self.out = nn.Linear(n_state, n_state)

    def heads(self, x: mx.array) -> mx.array:
        n, t, _ = x.shape
        return x.reshape(n, t, self.n_head, -1).transpose(0, 2, 1, 3)

    def keys_values(self, x: mx.array) -> KeysValues:
        return self.heads(self.key(x)), self.heads(self.value(x))

    def queries(self, x: mx.array) -> mx.array:
        return self.heads(self.query(x))

    def attend(self, x: mx.array, keys: mx.array, values: mx.array, mask: mx.array | None = None) -> mx.array:
        return self.answer(self.queries(x), keys, values, mask)

    def answer(self, q: mx.array, keys: mx.array, values: mx.array, mask: mx.array | None = None) -> mx.array:
        """What queries [n, heads, t, d] find, [n, t, n_state]."""
        n, _, t, d = q.shape
        y = kernels.attention(q, keys, values, scale=1.0 / math.sqrt(d), mask=mask)
        return self.out(y.transpose(0, 2, 1, 3).reshape(n, t, -1))


class Block(nn.Module):
    def __init__(self, n_state: int, n_head: int, cross_attention: bool = False) -> None:
        super().__init__()
        self.attn = Attention(n_state, n_head)
        self.attn_ln = nn.LayerNorm(n_state)
        if cross_attention:
            self.cross_attn = Attention(n_state, n_head)
            self.cross_attn_ln = nn.LayerNorm(n_state)
        self.mlp1 = nn.Linear(n_state, n_state * 4)
        self.mlp2 = nn.Linear(n_state * 4, n_state)
        self.mlp_ln = nn.LayerNorm(n_state)

    def encode(self, x: mx.array, counts: mx.array | None) -> mx.array:
        y = self.attn_ln(x)
        x = x + self.attn.attend(y, *self.attn.keys_values(y), counts)
        return x + kernels.by_rows(self._mlp, x)

    def decode(
        self,
        x: mx.array,
        layer: int,
        cache: SelfCache,
        cross: KeysValues,
        heard: mx.array | None,
        watch: Watch | None = None,
    ) -> mx.array:
        y = self.attn_ln(x)
        x = x + self.attn.attend(y, *cache.append(layer, *self.attn.keys_values(y)))
        q = self.cross_attn.queries(self.cross_attn_ln(x))
        if watch is not None:
            watch(layer, q)
        x = x + self.cross_attn.answer(q, *cross, heard)
        return x + self._mlp(x)

    def _mlp(self, x: mx.array) -> mx.array:
        return self.mlp2(kernels.gelu(self.mlp1(self.mlp_ln(x))))


class Encoder(nn.Module):
    def __init__(self, dims: layout.Dims) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(dims.n_mels, dims.n_audio_state, kernel_size=3, padding=1)
        self.conv2 = nn.Conv1d(dims.n_audio_state, dims.n_audio_state, kernel_size=3, stride=2, padding=1)
        self.blocks = [Block(dims.n_audio_state, dims.n_audio_head) for _ in range(dims.n_audio_layer)]
        self.ln_post = nn.LayerNorm(dims.n_audio_state)
        self._positions = sinusoids(dims.n_audio_ctx, dims.n_audio_state)

    def __call__(self, mel: mx.array, rest: Sequence[range] = ()) -> tuple[mx.array, mx.array]:
        """Log-mel [n, frames, n_mels] -> features [n, s, n_state], and what each of them counts for, [s].

        `rest` are the positions after these frames, silent as the last of them, in stretches for which one stands
        (Context): s is frames / 2 and one for each stretch. What one counts for is the logarithm of their number,
        which whoever attends to them adds to its scores.
        """
        frames, sizes = mel.shape[1], [len(stretch) for stretch in rest]
        x = self._convolved(mel if not rest else mx.concatenate([mel, mx.repeat(mel[:, -1:], _REACH, axis=1)], axis=1))
        places = mx.array([*range(frames // 2), *(stretch[len(stretch) // 2] for stretch in rest)])
        x = x[:, mx.minimum(places, frames // 2)] if rest else x
        x = x + self._positions[places].astype(x.dtype)
        counts = mx.log(mx.array([1.0] * (frames // 2) + sizes)).astype(x.dtype)
        for block in self.blocks:
            x = block.encode(x, counts[None, None, None] if rest else None)
        return self.ln_post(x), counts

    def _convolved(self, mel: mx.array) -> mx.array:
        x = kernels.by_rows(kernels.gelu, self.conv1(mel))
        return kernels.by_rows(kernels.gelu, self.conv2(x))


# Frames of silence after the first silent position that its two convolutions of three frames reach.
_REACH = 4


class Decoder(nn.Module):
    def __init__(self, dims: layout.Dims) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(dims.n_vocab, dims.n_text_state)
        self.positional_embedding = mx.zeros((dims.n_text_ctx, dims.n_text_state))
        self.blocks = [Block(dims.n_text_state, dims.n_text_head, True) for _ in range(dims.n_text_layer)]
        self.ln = nn.LayerNorm(dims.n_text_state)

    def cross(self, features: mx.array) -> list[KeysValues]:
        """The audio's keys and values for each layer, made once per window."""
        return [block.cross_attn.keys_values(features) for block in self.blocks]

    def __call__(
        self,
        tokens: mx.array,
        positions: mx.array,
        cache: SelfCache,
        cross: list[KeysValues],
        heard: mx.array | None = None,
        watch: Watch | None = None,
    ) -> mx.array:
        """Tokens [n, t] at positions [n, t] -> hidden states [n, t, n_state].

        `heard`, [n or 1, 1, 1, s], is what each of the audio's positions counts for: as the encoder says, -inf where it
        is none of the row's. `watch` is shown the queries that the audio's keys are compared with.
        """
        x = self.token_embedding(tokens) + self.positional_embedding[positions]
        for layer, block in enumerate(self.blocks):
            x = block.decode(x, layer, cache, cross[layer], heard, watch)
        return self.ln(x)

    def logits(self, hidden: mx.array) -> mx.array:
        """Hidden states [..., n_state] -> float32 logits [..., n_vocab]."""
        return self.token_embedding.as_linear(hidden).astype(mx.float32)


class Network(nn.Module):
    def __init__(self, dims: layout.Dims) -> None:
        super().__init__()
        self.dims = dims
        self.encoder = Encoder(dims)
        self.decoder = Decoder(dims)


def sinusoids(length: int, channels: int) -> mx.array:
    """Fixed positions of the encoder, [length, channels]; Vaswani et al. 2017, sines first, then cosines."""
    step = math.log(10_000) / (channels // 2 - 1)
    angle = mx.arange(length)[:, None] * mx.exp(-step * mx.arange(channels // 2))[None, :]
    return mx.concatenate([mx.sin(angle), mx.cos(angle)], axis=1)


def load(
    weight_files: list[Path],
    config: dict[str, Any],
    dtype: mx.Dtype,
    bits: int | None = None,
    dequantized: bool = False,
) -> Network:
    """The network with its weights in `dtype`, evaluated on the thread that calls. Every weight must be there.

    With `bits` its matrices are quantized to so many; a checkpoint that is stored quantized stays as it is.
    `dequantized`: in either case the layers are plain ones, of the quantized values.
    """
    tensors = {name: tensor for file in weight_files for name, tensor in mx.load(str(file)).items()}
    weights = _named(tensors)
    network = Network(layout.Dims.from_config(config))
    stored = quantization(config)
    if stored:
        _quantize(network, stored, weights)
    # Some conversions store more than weights, such as the alignment heads, or positions that are computed here.
    wanted = {name for name, _ in flat(network)}
    network.load_weights([(name, weight) for name, weight in weights.items() if name in wanted], strict=True)
    network.set_dtype(dtype)
    if bits and not stored:
        quantizing.quantize(network, bits)
    if dequantized:
        quantizing.dequantize(network)
    network.eval()
    # Nothing else holds what was read: each tensor goes as soon as it is cast.
    del tensors, weights
    mx.eval(network.parameters(), network.encoder._positions)
    if not kernels.on_gpu():
        _lay_out_for_few_rows(network.decoder)
    return network


def _lay_out_for_few_rows(decoder: Decoder) -> None:
    """Have the matrices lie in memory column by column: a BLAS multiplies few rows by them up to 1.5 times as fast."""
    for _, layer in decoder.named_modules():
        if type(layer) in (nn.Linear, nn.Embedding):
            layer.weight = mx.contiguous(layer.weight.T).T
            mx.eval(layer.weight)  # one after the other: at most one matrix is there twice


def _quantize(network: Network, settings: Mapping[str, Any], stored: Collection[str]) -> None:
    """Give the layers that are stored quantized that form; `settings` may hold some layers' own, under their paths."""
    general = {key: settings[key] for key in ("group_size", "bits", "mode") if key in settings}

    def form(path: str, _: nn.Module) -> bool | dict[str, Any]:
        return f"{path}.scales" in stored and settings.get(path, True)

    nn.quantize(network, **general, class_predicate=form)


def _named(tensors: dict[str, mx.array]) -> dict[str, mx.array]:
    """Hugging Face's names and convolution order as MLX's; a checkpoint in MLX's own layout comes back as it is."""
    hugging_face = layout.is_hugging_face(tensors)
    weights = {}
    for name, tensor in tensors.items():
        canonical = layout.canonical_name(name) if hugging_face else name
        if canonical is None:
            continue
        swap = hugging_face and canonical in layout.CONV_WEIGHTS
        weights[canonical] = tensor.swapaxes(1, 2) if swap else tensor
    return weights


def flat(network: Network) -> list[tuple[str, mx.array]]:
    """Names and arrays of all weights."""
    return list(tree_flatten(network.parameters()))
