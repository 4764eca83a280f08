"""The GE2E speaker encoder's weights by name and shape: those of mlx-audio's VoiceEncoder. No MLX.

Three LSTMs over 40 mel bands and a projection: Wan et al. 2018, "Generalized End-to-End Loss for Speaker
Verification", arXiv 1710.10467.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlxbatch.models.weights import Shape

LSTMS = 3


def expected_shapes(config: Mapping[str, Any]) -> dict[str, Shape]:
    """Every weight. KeyError or TypeError where the config lacks a size."""
    hidden, width = config["ve_hidden_size"], config["speaker_embed_size"]
    shapes: dict[str, Shape] = {}
    for layer in range(LSTMS):
        path, into = f"lstm.layers.{layer}", hidden if layer else config["num_mels"]
        shapes |= {f"{path}.Wx": (4 * hidden, into), f"{path}.Wh": (4 * hidden, hidden), f"{path}.bias": (4 * hidden,)}
    shapes |= {"proj.weight": (width, hidden), "proj.bias": (width,)}
    return shapes | {"similarity_weight": (1,), "similarity_bias": (1,)}
