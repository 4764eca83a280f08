"""Layers quantized on loading, and made plain again."""

from __future__ import annotations

import pytest

from mlxbatch import blas

blas.preload()

import mlx.core as mx  # noqa: E402
import mlx.nn as nn  # noqa: E402

from mlxbatch.engines.quantizing import dequantize, quantize  # noqa: E402


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 128)
        self.layers = [nn.Linear(128, 64), nn.Linear(64, 96, bias=False)]
        self.odd = nn.Linear(96, 7)  # rows that are no whole groups
        self.norm = nn.LayerNorm(7)

    def __call__(self, tokens: mx.array) -> mx.array:
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.norm(self.odd(x))


@pytest.mark.parametrize(("bits", "apart"), [(8, 0.05), (6, 0.2), (4, 0.8)])
def test_what_can_be_quantized_is_and_can_be_made_plain_again(bits: int, apart: float) -> None:
    mx.random.seed(0)
    network, tokens = Small(), mx.arange(40)
    before = network(tokens)
    quantize(network, bits)
    assert isinstance(network.words, nn.QuantizedEmbedding)
    assert [layer.bits for layer in network.layers] == [bits, bits]
    assert isinstance(network.odd, nn.Linear)
    quantized = network(tokens)
    assert 0 < mx.abs(quantized - before).max().item() < apart
    dequantize(network)
    assert [type(layer) for layer in (network.words, *network.layers)] == [nn.Embedding, nn.Linear, nn.Linear]
    assert ["bias" in layer for layer in network.layers] == [True, False]
    assert mx.abs(network(tokens) - quantized).max().item() < 1e-4


def test_a_network_without_quantized_layers_stays_as_it_is() -> None:
    network = Small()
    weight = network.words.weight
    dequantize(network)
    assert network.words.weight is weight
