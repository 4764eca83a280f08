"""What each kind of catalogue model is made by from its packages' files, and checked with: by its engine's name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlxbatch.convert.silero import convert_silero
from mlxbatch.convert.whisper import convert_ctranslate2
from mlxbatch.models.catalogue import CatalogueModel
from mlxbatch.models.check import check_whisper
from mlxbatch.vad.check import check_silero


@dataclass(frozen=True, slots=True)
class Kind:
    """`make(source, target)` raises ValueError, `check(directory)` SetupError."""

    make: Callable[[Path, Path], None]
    check: Callable[[Path], Any]


KINDS = {"whisper": Kind(convert_ctranslate2, check_whisper), "silero-vad": Kind(convert_silero, check_silero)}


def kind_of(model: CatalogueModel) -> Kind:
    """That of a model which comes from packages."""
    return KINDS[model.engine]
