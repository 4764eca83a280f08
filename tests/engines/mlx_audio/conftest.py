"""Tiny models of the named families, made and loaded once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from mlxbatch.engines.mlx_audio.engine import MlxAudioEngine
from tests.engines.mlx_audio.parts import engine_over
from tests.engines.mlx_audio.tiny import MAKERS


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A family's tiny directory. Not to be changed: copy it first."""
    root = tmp_path_factory.mktemp("models")

    def find(name: str) -> Path:
        return root / name if (root / name).exists() else MAKERS[name](root / name)

    return find


@pytest.fixture(scope="session")
def engines(models: Callable[[str], Path]) -> Iterator[Callable[[str], MlxAudioEngine]]:
    """A family's engine, batches of 4 and pieces of 2 s; it hears any number of jobs, one run after the other."""
    with ExitStack() as stack:
        loaded: dict[str, MlxAudioEngine] = {}

        def find(name: str) -> MlxAudioEngine:
            if name not in loaded:
                loaded[name] = stack.enter_context(closing(engine_over(models(name))))
            return loaded[name]

        yield find
