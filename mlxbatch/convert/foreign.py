"""Checkpoints of other formats than MLX's that are known here by the names of their files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mlxbatch.convert import onnx_deepfilter, onnx_kokoro, onnx_silero, resemblyzer, silero
from mlxbatch.convert.checkpoint import Checkpoint, Origin

Read = Callable[[Path, Origin], Checkpoint]

READERS: dict[str, Read] = {
    onnx_kokoro.MODEL: onnx_kokoro.read_kokoro,
    onnx_deepfilter.ARCHIVE: onnx_deepfilter.read_deepfilter,
    silero.MODEL: onnx_silero.read_silero,
    resemblyzer.MODEL: resemblyzer.read_resemblyzer,
}


def reader_of(directory: Path) -> Read | None:
    """What reads the directory, with a ValueError that names the file at fault; None where it holds none of these."""
    return next((read for name, read in READERS.items() if (directory / name).is_file()), None)
