"""Engines by name, as strings: nothing is imported until one is built."""

from __future__ import annotations

import importlib
from typing import Any

from mlxbatch.engines.base import Engine, EngineSpec, Footprint
from mlxbatch.errors import UsageError

ENGINES = {
    "fake": "mlxbatch.engines.fake:FakeEngine",
    "mlx-audio": "mlxbatch.engines.mlx_audio:build",
    "whisper": "mlxbatch.engines.whisper:build",
}

# Those whose memory is known before they are built.
FOOTPRINTS = {
    "fake": "mlxbatch.engines.fake:footprint",
    "mlx-audio": "mlxbatch.engines.mlx_audio.footprint:footprint",
    "whisper": "mlxbatch.engines.whisper.footprint:footprint",
}
# Those that hear speech only, where that is asked for: they need a detector (EngineSpec.vad).
DETECTING = frozenset({"mlx-audio", "whisper"})

# Raised when the same input and options may give another output: part of the inference key.
VERSIONS = {"fake": "1", "mlx-audio": "1", "whisper": "2"}


def build(spec: EngineSpec) -> Engine:
    """The engine itself, its weights loaded, on the thread that calls."""
    if spec.engine not in ENGINES:
        raise UsageError(f"unknown engine {spec.engine!r} (known: {', '.join(sorted(ENGINES))})")
    engine: Engine = _named(ENGINES[spec.engine])(spec)
    return engine


def footprint(spec: EngineSpec) -> Footprint | None:
    """The memory that the engine will need, without MLX; None of one that cannot tell before it is built."""
    if spec.engine not in FOOTPRINTS:
        return None
    found: Footprint = _named(FOOTPRINTS[spec.engine])(spec)
    return found


def _named(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
