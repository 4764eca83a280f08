"""Kokoro-82M from the int8 ONNX file that kokoro-onnx published, dequantized to float32 under MLX's names.

ONNX Runtime's dynamic quantization stores a weight W as W_quantized, W_scale and a zero point. The exporter kept the
names of biases and norms; a matrix or a convolution is known by the node it goes into, "/decoder/decoder/encode/conv1".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from mlxbatch.convert.checkpoint import Checkpoint, Origin
from mlxbatch.convert.fitting import Read, fitted, zeros
from mlxbatch.convert.kokoro_layout import VOICE_SHAPE, expected_shapes, quantizable
from mlxbatch.convert.onnx import Graph, Node, Stored, Tensor, dequantized, module_path, read_graph
from mlxbatch.convert.write import write_plain
from mlxbatch.models.weights import Shape

MODEL, VOCABULARY, VOICES = "kokoro.onnx", "vocab.json", "voices"
# config.json as hexgrad published it for Kokoro-82M 1.0, but for the phonemes' numbers.
CONFIG: Mapping[str, Any] = {
    "model_type": "kokoro",
    "istftnet": {
        "upsample_kernel_sizes": [20, 12],
        "upsample_rates": [10, 6],
        "gen_istft_hop_size": 5,
        "gen_istft_n_fft": 20,
        "resblock_dilation_sizes": [[1, 3, 5], [1, 3, 5], [1, 3, 5]],
        "resblock_kernel_sizes": [3, 7, 11],
        "upsample_initial_channel": 512,
    },
    "dim_in": 64,
    "dropout": 0.2,
    "hidden_dim": 512,
    "max_conv_dim": 512,
    "max_dur": 50,
    "multispeaker": True,
    "n_layer": 3,
    "n_mels": 80,
    "n_token": 178,
    "style_dim": 128,
    "text_encoder_kernel_size": 5,
    "plbert": {
        "hidden_size": 768,
        "num_attention_heads": 12,
        "intermediate_size": 2048,
        "max_position_embeddings": 512,
        "num_hidden_layers": 12,
        "dropout": 0.1,
    },
    "sample_rate": 24_000,
}
# Of its output nothing becomes sound, so the exporter left it out; mlx-audio's model has it nevertheless.
UNUSED = ("bert.pooler.weight", "bert.pooler.bias")

# The model was exported as the two halves of a wrapper, which come first in all names.
_WRAPPERS = ("encoder.", "decoder.")
_AGAIN = re.compile(r"_\d+$")  # ALBERT's one layer runs twelve times: "query", "query_1", "query_2"
_OF_PREDICTOR = re.compile(r"(F0|N)\.\d|(F0|N)_proj$|shared$")  # called by the wrapper, past the predictor
_NORMS = {"gamma": "weight", "beta": "bias"}

Named = Iterator[tuple[str, Shape, Read]]


def convert_kokoro(source: Path, target: Path) -> None:
    """Write the model directory `target` from the packages' files in `source`: kokoro.onnx, vocab.json, voices/*.bin.

    `target` is made, and must not exist. Raises ValueError that names the file at fault and what is wrong with it.
    """
    write_plain(read_kokoro(source, Origin(source.name)), target)


def read_kokoro(source: Path, origin: Origin) -> Checkpoint:
    """The checkpoint in a directory as of `convert_kokoro`. ValueError as there."""
    config = {**CONFIG, "vocab": _vocabulary(source / VOCABULARY)}
    voices = dict(_voices(source / VOICES))
    try:
        shapes = expected_shapes(config)
        found = {name: (shape, read) for name, shape, read in kokoro_weights(read_graph(source / MODEL))}
        weights = fitted(found | {name: zeros(shapes[name]) for name in UNUSED}, shapes)
    except (ValueError, IndexError) as error:  # a node with less, or of fewer dimensions, than Kokoro's
        raise ValueError(f"{MODEL}: {error}") from error
    notices = {name: source / name for name in ("LICENSE", "NOTICE") if (source / name).exists()}
    return Checkpoint("kokoro", "synthesize", config, weights, quantizable(config), {**voices, **notices}, origin)


def kokoro_weights(graph: Graph) -> Named:
    """Every weight that the graph holds: MLX's name and shape, and its float32 values when they are asked for."""
    for name, tensor in graph.tensors.items():
        if name.startswith(_WRAPPERS) and tensor.dtype == np.float32:
            yield _plain_name(name), tensor.shape, tensor.copy
    seen: set[str] = set()
    for node in graph.nodes:
        convert = _CONVERTERS.get(node.op)
        path = _layer_path(node)
        if convert is not None and path not in seen and _weight_of(node) in graph.tensors:
            seen.add(path)
            yield from convert(graph, node, path)


def _plain_name(name: str) -> str:
    path, _, last = name.partition(".")[2].rpartition(".")
    return f"{path}.{_NORMS.get(last, last)}"


def _layer_path(node: Node) -> str:
    path = _AGAIN.sub("", module_path(node).partition(".")[2])
    return f"predictor.{path}" if _OF_PREDICTOR.match(path) else path


def _weight_of(node: Node) -> str:
    return node.inputs[1] if len(node.inputs) > 1 else ""


def _matrix(graph: Graph, node: Node, path: str) -> Named:
    """x W, W [in, out]."""
    into, out = graph.tensor(node.inputs[1]).shape
    yield f"{path}.weight", (out, into), lambda: _values(graph, node, axis=1).T


def _convolution(graph: Graph, node: Node, path: str) -> Named:
    """[out, in, k], or transposed [in, out, k]. The exporter multiplied weight normalization out; here g is W's length
    by rows and v is W itself, so that g v / |v| is W again."""
    out, into, kernel = graph.tensor(node.inputs[1]).shape

    def read() -> Tensor:
        return _values(graph, node, axis=0).transpose(0, 2, 1)

    if path.endswith(("F0_proj", "N_proj")) or ".noise_convs." in path:
        yield f"{path}.weight", (out, kernel, into), read
    else:
        yield f"{path}.weight_v", (out, kernel, into), read
        yield f"{path}.weight_g", (out, 1, 1), lambda: np.linalg.norm(read(), axis=(1, 2), keepdims=True)


def _embedding(graph: Graph, node: Node, path: str) -> Named:
    """Rows are gathered first, and dequantized then: the node has their scale and zero point, not the rows."""
    scale, zero = (graph.tensor(name) for name in node.inputs[1:3])
    stored = graph.tensor(node.inputs[1].removesuffix("_scale") + "_quantized")
    yield f"{path}.weight", stored.shape, lambda: dequantized(stored, scale, zero, axis=0)


def _lstm(graph: Graph, node: Node, path: str) -> Named:
    """ONNX Runtime's DynamicQuantizeLSTM takes X, W [2, in, 4h], R [2, h, 4h] and B [2, 8h], then from the ninth on the
    scale and zero point of W and of R, by direction. B is the bias of the inputs and that of the states."""
    w, r, b = (graph.tensor(name) for name in node.inputs[1:4])
    w_scale, w_zero, r_scale, r_zero = (graph.tensor(name) for name in node.inputs[8:12])
    gates = b.shape[1] // 2
    for way, direction in enumerate(("forward", "backward")):
        yield f"{path}.Wx_{direction}", (gates, w.shape[1]), _lstm_matrix(w, w_scale, w_zero, way)
        yield f"{path}.Wh_{direction}", (gates, r.shape[1]), _lstm_matrix(r, r_scale, r_zero, way)
        yield f"{path}.bias_ih_{direction}", (gates,), _gates_of(b[way, :gates])
        yield f"{path}.bias_hh_{direction}", (gates,), _gates_of(b[way, gates:])


def _lstm_matrix(stored: Stored, scale: Tensor, zero: Stored, way: int) -> Read:
    return lambda: _ordered(dequantized(stored[way], scale[way : way + 1], zero[way : way + 1], axis=0).T)


def _gates_of(bias: Stored) -> Read:
    return lambda: _ordered(bias)


def _ordered(rows: Stored) -> Tensor:
    """The gates from ONNX's order, input, output, forget, cell, to MLX's."""
    i, o, f, c = np.split(rows, 4)
    return np.concatenate([i, f, c, o])


_CONVERTERS: Mapping[str, Callable[[Graph, Node, str], Named]] = {
    "MatMulInteger": _matrix,
    "MatMul": _matrix,
    "ConvInteger": _convolution,
    "Conv": _convolution,
    "ConvTranspose": _convolution,
    "DequantizeLinear": _embedding,
    "DynamicQuantizeLSTM": _lstm,
}


def _values(graph: Graph, node: Node, axis: int) -> Tensor:
    """A node's weight; `axis` is that of its outputs, which may have scales of their own."""
    name = node.inputs[1]
    stored = graph.tensor(name)
    if stored.dtype == np.float32:
        return stored
    scale = graph.tensor(name.removesuffix("_quantized") + "_scale")
    zero = graph.tensor(node.inputs[3]) if len(node.inputs) > 3 else np.zeros(1, stored.dtype)
    return dequantized(stored, scale, zero, axis)


def _vocabulary(path: Path) -> dict[str, int]:
    """The number of each phoneme: {"vocab": {"a": 43, ...}}."""
    try:
        numbers = json.loads(path.read_text("utf-8"))["vocab"]
        return {str(phoneme): int(number) for phoneme, number in numbers.items()}
    except OSError as error:
        raise ValueError(f"{path.name}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path.name}: not a list of phonemes and their numbers") from error


def _voices(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Each voice as mlx-audio reads it, from raw float32."""
    paths = sorted(folder.glob("*.bin"))
    if not paths:
        raise ValueError(f"{folder.name}: no voice (*.bin) in it")
    for path in paths:
        data, needed = path.read_bytes(), 4 * math.prod(VOICE_SHAPE)
        if len(data) != needed:
            raise ValueError(f"{folder.name}/{path.name}: {len(data)} bytes, a voice has {needed}")
        voice = np.frombuffer(data, "<f4").reshape(VOICE_SHAPE)
        yield f"{folder.name}/{path.stem}.safetensors", save({"voice": voice})
