"""Tiny Whisper directories, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engines.whisper.parts import short_whisper
from tests.models.tiny import write_tiny_whisper


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_whisper(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="session")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny weights that say little: 32 tokens at most."""
    return short_whisper(tmp_path_factory.mktemp("short") / "model")
