"""Quantized layers made of plain ones on loading, and plain ones of quantized where those would be slow."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_unflatten

from mlxbatch.models.weights import GROUP


def quantize(network: nn.Module, bits: int) -> None:
    """Bring the matrices of a network with plain layers to so many bits a weight, in groups of GROUP.

    A matrix whose rows are not whole groups stays as it is. In Whisper all of them are.
    """
    nn.quantize(network, GROUP, bits, class_predicate=_divides)


def dequantize(network: nn.Module) -> None:
    """Plain layers of the same values: on MLX's CPU build a quantized product runs at 1 GFLOPS, a plain one at 140-199.

    (Measured on a 2-core x86 machine, the plain ones in float32 on OpenBLAS.)
    """
    plain = [(name, _plain(layer)) for name, layer in network.named_modules() if _is_quantized(layer)]
    network.update_modules(tree_unflatten(plain))


def _divides(path: str, layer: nn.Module) -> bool:
    return isinstance(layer, nn.Linear | nn.Embedding) and layer.weight.shape[-1] % GROUP == 0


def _is_quantized(layer: nn.Module) -> bool:
    return isinstance(layer, nn.QuantizedLinear | nn.QuantizedEmbedding)


def _plain(layer: Any) -> nn.Module:
    form = {"group_size": layer.group_size, "bits": layer.bits, "mode": layer.mode}
    weight = mx.dequantize(layer.weight, layer.scales, layer.get("biases"), **form)
    rows, columns = weight.shape
    if isinstance(layer, nn.QuantizedEmbedding):
        plain: nn.Module = nn.Embedding(rows, columns)
    else:
        plain = nn.Linear(columns, rows, bias="bias" in layer)
        if "bias" in layer:
            plain.bias = layer.bias
    plain.weight = weight
    return plain
