"""mlx-audio's speech recognition models behind one engine: loaded whole, cut, batched, told as segments."""

from __future__ import annotations

from mlxbatch import blas
from mlxbatch.engines import families
from mlxbatch.engines.base import Engine, EngineSpec


def build(spec: EngineSpec) -> Engine:
    """The engine for the family of the model in `spec.model`. BLAS is settled first: its module imports MLX."""
    assert spec.model is not None
    family = families.family_of(spec.model)
    families.require(family)
    if spec.device.get("kind", "cpu") == "cpu" and spec.device.get("blas", "openblas") == "openblas":
        blas.preload()
    from mlxbatch.engines.mlx_audio.engine import MlxAudioEngine

    return MlxAudioEngine(spec, family)
