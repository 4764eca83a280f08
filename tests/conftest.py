"""Fixtures that many tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlxbatch.models import catalogue
from mlxbatch.models.fetch import pull


@pytest.fixture(scope="session")
def whisper_base() -> Path:
    """The real Whisper base ($MLXBATCH_CACHE, else the user's cache), pulled when it is missing."""
    model = catalogue.find("whisper-base")
    assert model is not None
    return pull(model, print)
