"""Engines by name, as strings: nothing is imported until one is built."""

from __future__ import annotations

import importlib

from mlxbatch.engines.base import Engine, EngineSpec
from mlxbatch.errors import UsageError

ENGINES = {
    "fake": "mlxbatch.engines.fake:FakeEngine",
    "whisper": "mlxbatch.engines.whisper:build",
}

# Those that hear speech only, where that is asked for: they need a detector (EngineSpec.vad).
DETECTING = frozenset({"whisper"})

# Raised when the same input and options may give another output: part of the inference key.
VERSIONS = {"fake": "1", "whisper": "1"}


def build(spec: EngineSpec) -> Engine:
    """The engine itself, its weights loaded, on the thread that calls."""
    if spec.engine not in ENGINES:
        raise UsageError(f"unknown engine {spec.engine!r} (known: {', '.join(sorted(ENGINES))})")
    module, _, attribute = ENGINES[spec.engine].partition(":")
    engine: Engine = getattr(importlib.import_module(module), attribute)(spec)
    return engine
