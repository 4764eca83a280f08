"""Kokoro's layers and weights by name and shape, from its config.json: those of mlx-audio's model. No MLX.

The model is StyleTTS 2's (Li et al. 2023, arXiv 2306.07691) with the iSTFTNet vocoder (Kaneko et al. 2022,
arXiv 2203.02395) and ALBERT (Lan et al. 2019, arXiv 1909.11942) over the phonemes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mlxbatch.models.weights import Shape

Config = Mapping[str, Any]

# What config.json does not tell, because the published model's code has it.
ALBERT_WIDTH, ALBERT_TYPES = 128, 2
DECODER_WIDTH, TEXT_WIDTH = 1024, 64
HARMONICS = 9  # the fundamental and eight overtones
NOISE_KERNEL, LAST_NOISE_KERNEL, POST_KERNEL = 7, 11, 7

# A voice: a style for each number of phonemes, half of it the timbre, half the prosody.
VOICE_SHAPE: Shape = (510, 1, 256)


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer by its path, its weights by their names in it. `packs`: MLX can quantize it."""

    path: str
    weights: Mapping[str, Shape]
    packs: bool = False


def expected_shapes(config: Config) -> dict[str, Shape]:
    """Every weight, convolutions as MLX has them: [out, k, in]. KeyError or TypeError where the config lacks a size."""
    return {f"{layer.path}.{name}": shape for layer in layers(config) for name, shape in layer.weights.items()}


def quantizable(config: Config) -> frozenset[str]:
    """The paths of the layers that MLX can quantize: not its convolutions nor its LSTMs, most of the model."""
    return frozenset(layer.path for layer in layers(config) if layer.packs)


def turned_in_file(name: str, shape: Shape) -> bool:
    """Whether mlx-audio expects this weight, of shape [out, k, in], with its last two axes the other way round.

    So it does with convolutions, as PyTorch has them, unless a layer of the model is quantized: then all of its
    weights lie as in MLX. A square one is left alone, because its loader goes by the shape.
    """
    if name.endswith(".weight_v"):
        out, kernel, into = shape
        return not (kernel == into <= out)
    return name.endswith((".F0_proj.weight", ".N_proj.weight")) or (".noise_convs." in name and len(shape) == 3)


def layers(config: Config) -> Iterator[Layer]:
    width, style, bert = config["hidden_dim"], config["style_dim"], config["plbert"]["hidden_size"]
    yield from _albert(config["plbert"], config["n_token"])
    yield _linear("bert_encoder", width, bert)
    yield from _predictor("predictor", width, style, config["n_layer"], config["max_dur"])
    yield from _text_encoder("text_encoder", config)
    yield from _decoder("decoder", width, style)
    yield from _generator("decoder.generator", config["istftnet"], style)


def _albert(plbert: Config, tokens: int) -> Iterator[Layer]:
    width, inner = plbert["hidden_size"], plbert["intermediate_size"]
    rows = {"word": tokens, "position": plbert["max_position_embeddings"], "token_type": ALBERT_TYPES}
    for name, count in rows.items():
        yield _embedding(f"bert.embeddings.{name}_embeddings", count, ALBERT_WIDTH)
    yield _norm("bert.embeddings.LayerNorm", ALBERT_WIDTH)
    yield _linear("bert.encoder.embedding_hidden_mapping_in", width, ALBERT_WIDTH)
    shared = "bert.encoder.albert_layer_groups.0.albert_layers.0"
    for name in ("query", "key", "value", "dense"):
        yield _linear(f"{shared}.attention.{name}", width, width)
    yield _norm(f"{shared}.attention.LayerNorm", width)
    yield _linear(f"{shared}.ffn", inner, width)
    yield _linear(f"{shared}.ffn_output", width, inner)
    yield _norm(f"{shared}.full_layer_layer_norm", width)
    yield _linear("bert.pooler", width, width)


def _predictor(path: str, width: int, style: int, depth: int, longest: int) -> Iterator[Layer]:
    for number in range(depth):
        yield _lstm(f"{path}.text_encoder.lstms.{2 * number}", width + style, width // 2)
        yield _linear(f"{path}.text_encoder.lstms.{2 * number + 1}.fc", 2 * width, style)
    for name in ("lstm", "shared"):
        yield _lstm(f"{path}.{name}", width + style, width // 2)
    yield _linear(f"{path}.duration_proj.linear_layer", longest, width)
    half = width // 2
    for curve in ("F0", "N"):
        yield from _style_block(f"{path}.{curve}.0", width, width, style)
        yield from _style_block(f"{path}.{curve}.1", width, half, style, upsamples=True)
        yield from _style_block(f"{path}.{curve}.2", half, half, style)
        yield Layer(f"{path}.{curve}_proj", {"weight": (1, 1, half), "bias": (1,)})


def _text_encoder(path: str, config: Config) -> Iterator[Layer]:
    width = config["hidden_dim"]
    yield _embedding(f"{path}.embedding", config["n_token"], width)
    for number in range(config["n_layer"]):
        yield _conv(f"{path}.cnn.{number}.0", width, config["text_encoder_kernel_size"], width)
        yield _norm(f"{path}.cnn.{number}.1", width)
    yield _lstm(f"{path}.lstm", width, width // 2)


def _decoder(path: str, width: int, style: int) -> Iterator[Layer]:
    into = DECODER_WIDTH + TEXT_WIDTH + 2  # pitch and energy beside the rest
    yield from _style_block(f"{path}.encode", width + 2, DECODER_WIDTH, style)
    for number in range(3):
        yield from _style_block(f"{path}.decode.{number}", into, DECODER_WIDTH, style)
    yield from _style_block(f"{path}.decode.3", into, width, style, upsamples=True)
    for curve in ("F0", "N"):
        yield _conv(f"{path}.{curve}_conv", 1, 3, 1)
    yield _conv(f"{path}.asr_res.0", TEXT_WIDTH, 1, width)


def _generator(path: str, istft: Config, style: int) -> Iterator[Layer]:
    rates, width, bins = istft["upsample_rates"], istft["upsample_initial_channel"], istft["gen_istft_n_fft"] + 2
    kernels = istft["resblock_kernel_sizes"]
    yield _linear(f"{path}.m_source.l_linear", 1, HARMONICS)
    for stage, kernel in enumerate(istft["upsample_kernel_sizes"]):
        into, out, last = width >> stage, width >> (stage + 1), stage + 1 == len(rates)
        yield _conv(f"{path}.ups.{stage}", into, kernel, out, biases=out)  # transposed: its rows are what goes in
        noise = 1 if last else 2 * math.prod(rates[stage + 1 :])
        yield Layer(f"{path}.noise_convs.{stage}", {"weight": (out, noise, bins), "bias": (out,)})
        yield from _snake_block(f"{path}.noise_res.{stage}", out, LAST_NOISE_KERNEL if last else NOISE_KERNEL, style)
        for number, size in enumerate(kernels):
            yield from _snake_block(f"{path}.resblocks.{stage * len(kernels) + number}", out, size, style)
    yield _conv(f"{path}.conv_post", bins, POST_KERNEL, width >> len(rates))


def _style_block(path: str, into: int, out: int, style: int, *, upsamples: bool = False) -> Iterator[Layer]:
    yield _conv(f"{path}.conv1", out, 3, into)
    yield _conv(f"{path}.conv2", out, 3, out)
    yield _linear(f"{path}.norm1.fc", 2 * into, style)
    yield _linear(f"{path}.norm2.fc", 2 * out, style)
    if into != out:
        yield _conv(f"{path}.conv1x1", out, 1, into, biases=0)
    if upsamples:
        yield _conv(f"{path}.pool", into, 3, 1)


def _snake_block(path: str, width: int, kernel: int, style: int) -> Iterator[Layer]:
    for half in (1, 2):
        for number in range(3):
            yield _conv(f"{path}.convs{half}.{number}", width, kernel, width)
            yield _linear(f"{path}.adain{half}.{number}.fc", 2 * width, style)
            yield Layer(path, {f"alpha{half}.{number}": (1, width, 1)})


def _linear(path: str, out: int, into: int) -> Layer:
    return Layer(path, {"weight": (out, into), "bias": (out,)}, packs=True)


def _embedding(path: str, rows: int, width: int) -> Layer:
    return Layer(path, {"weight": (rows, width)}, packs=True)


def _norm(path: str, width: int) -> Layer:
    return Layer(path, {"weight": (width,), "bias": (width,)})


def _conv(path: str, out: int, kernel: int, into: int, biases: int | None = None) -> Layer:
    """A convolution with weight normalization: `weight_v` gives each row's direction, `weight_g` its length."""
    biases = out if biases is None else biases
    weights: dict[str, Shape] = {"weight_g": (out, 1, 1), "weight_v": (out, kernel, into)}
    return Layer(path, weights | ({"bias": (biases,)} if biases else {}))


def _lstm(path: str, into: int, hidden: int) -> Layer:
    gates = 4 * hidden
    sizes: dict[str, Shape] = {"Wx": (gates, into), "Wh": (gates, hidden), "bias_ih": (gates,), "bias_hh": (gates,)}
    return Layer(path, {f"{name}_{way}": shape for way in ("forward", "backward") for name, shape in sizes.items()})
