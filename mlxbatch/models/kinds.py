"""What each kind of catalogue model is made by from its packages' files, and checked with: by its engine's name.

Some are made by modules that import MLX. Those are imported when one is made, and not before: who only looks for a
model, or runs one in another process, has no use for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlxbatch import blas
from mlxbatch.convert.silero import convert_silero
from mlxbatch.convert.whisper import convert_ctranslate2
from mlxbatch.models.catalogue import CatalogueModel
from mlxbatch.models.check import check_whisper
from mlxbatch.models.exact import check_deepfilter, check_ge2e, check_kokoro
from mlxbatch.vad.check import check_silero


@dataclass(frozen=True, slots=True)
class Kind:
    """`make(source, target)` raises ValueError, `check(directory)` SetupError."""

    make: Callable[[Path, Path], None]
    check: Callable[[Path], Any]


def _make_kokoro(source: Path, target: Path) -> None:
    blas.preload()
    from mlxbatch.convert.onnx_kokoro import convert_kokoro

    convert_kokoro(source, target)


def _make_deepfilter(source: Path, target: Path) -> None:
    blas.preload()
    from mlxbatch.convert.onnx_deepfilter import convert_deepfilter

    convert_deepfilter(source, target)


def _make_ge2e(source: Path, target: Path) -> None:
    blas.preload()
    from mlxbatch.convert.resemblyzer import convert_resemblyzer

    convert_resemblyzer(source, target)


KINDS = {
    "whisper": Kind(convert_ctranslate2, check_whisper),
    "silero-vad": Kind(convert_silero, check_silero),
    "kokoro": Kind(_make_kokoro, check_kokoro),
    "deepfilternet": Kind(_make_deepfilter, check_deepfilter),
    "ge2e": Kind(_make_ge2e, check_ge2e),
}


def kind_of(model: CatalogueModel) -> Kind:
    """That of a model which comes from packages."""
    return KINDS[model.engine]
