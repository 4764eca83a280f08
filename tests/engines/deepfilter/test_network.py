"""The network beside mlx-audio's, layer by layer as it was published, with the same weights of chance."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from mlxbatch.engines.deepfilter import folding
from mlxbatch.engines.deepfilter.activations import sigmoid, tanh
from mlxbatch.engines.deepfilter.network import Network
from tests.engines.deepfilter.tiny import CONFIG, SIZES, Array, tensors

FRAMES, HIDDEN = 30, CONFIG["df_hidden_dim"]


def weights() -> dict[str, Array]:
    """Without what mlx-audio's loader adds or does not, by the order of a set: the states' bias of two gates."""
    found = tensors()
    for name, values in found.items():
        if ".bias_hh_l" in name:
            values[: len(values) // 3 * 2] = 0
    return found


def published(given: dict[str, Array]) -> Any:
    from mlx_audio.sts.models.deepfilternet.config import DeepFilterNet3Config
    from mlx_audio.sts.models.deepfilternet.network import DfNet
    from mlx_audio.sts.models.deepfilternet.weight_loader import load_weights

    model = DfNet(DeepFilterNet3Config.from_dict(CONFIG))
    assert load_weights(model, {name: mx.array(values) for name, values in given.items()}) == len(given)
    return model


def test_gains_and_filters_are_the_published_networks() -> None:
    rng = np.random.default_rng(1)
    levels = rng.standard_normal((2, FRAMES, SIZES.bands)).astype(np.float32)
    bins = rng.standard_normal((2, FRAMES, SIZES.low, 2)).astype(np.float32)
    given = weights()
    network = Network(given, SIZES)
    states = [network.start(), network.start()]
    gains, filters, _ = network(levels, bins, states[0].join(states))

    model = published(given)
    e0, e1, e2, e3, embedding, low, _ = model.enc(mx.array(levels)[:, None], mx.array(bins.transpose(0, 3, 1, 2)))
    np.testing.assert_allclose(gains, np.array(model.erb_dec(embedding, e3, e2, e1, e0))[:, 0], atol=1e-5)
    expected = np.array(model.df_dec(embedding, low)).reshape(filters.shape)
    np.testing.assert_allclose(filters, expected, atol=2e-5 * float(np.abs(expected).max()))
    assert np.std(gains) > 0.05


def test_recurrence_is_pytorchs() -> None:
    """With a states' bias of all three gates."""
    given = tensors()
    ((inputs, recurrence), *_) = folding.recurrences(given, "df_dec.df_gru.gru")
    rng = np.random.default_rng(2)
    x = rng.standard_normal((3, 7, HIDDEN)).astype(np.float32)
    state = rng.standard_normal((3, HIDDEN)).astype(np.float32)
    states, last = recurrence(x @ inputs.weight + inputs.bias, state)

    w, r, b, c = (given[f"df_dec.df_gru.gru.{name}_l0"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    for step in range(7):
        (ri, zi, ni), (rs, zs, ns) = (np.split(a, 3, axis=1) for a in (x[:, step] @ w.T + b, state @ r.T + c))
        reset, update = 1 / (1 + np.exp(-ri - rs)), 1 / (1 + np.exp(-zi - zs))
        state = (1 - update) * np.tanh(ni + reset * ns) + update * state
        np.testing.assert_allclose(states[:, step], state, atol=1e-5)
    np.testing.assert_array_equal(last, states[:, -1])


def test_recurrence_of_a_row_is_the_same_to_the_bit_in_any_batch() -> None:
    ((_, recurrence), *_) = folding.recurrences(tensors(), "df_dec.df_gru.gru")
    x = np.random.default_rng(3).standard_normal((5, 9, 3 * HIDDEN)).astype(np.float32)
    start = np.zeros((5, HIDDEN), np.float32)
    together, _ = recurrence(x, start)
    for row in range(5):
        alone, _ = recurrence(x[row : row + 1], start[:1])
        np.testing.assert_array_equal(alone[0], together[row])


@pytest.mark.parametrize(("ours", "mlxs"), [(sigmoid, nn.sigmoid), (tanh, mx.tanh)])
def test_activations_are_mlxs(ours: Any, mlxs: Any) -> None:
    x = mx.concatenate([mx.linspace(-20, 20, 4001), mx.array([-1e9, -200.0, 200.0, 1e9])])
    np.testing.assert_allclose(np.array(ours(x)), np.array(mlxs(x)), atol=3e-7)
    assert np.isnan(np.array(ours(mx.array([float("nan")]))))
