"""Whisper: features, network, rules, slots and the engine over them."""

from __future__ import annotations

from mlxbatch import blas
from mlxbatch.engines.base import Engine, EngineSpec


def build(spec: EngineSpec) -> Engine:
    """The Whisper engine. BLAS is settled first: the engine's own module imports MLX."""
    if spec.device.get("kind", "cpu") == "cpu" and spec.device.get("blas", "openblas") == "openblas":
        blas.preload()
    from mlxbatch.engines.whisper.engine import WhisperEngine

    return WhisperEngine(spec)
