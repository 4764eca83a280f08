"""The catalogue's models that are no Whisper, as checkpoints: their authors' files, and directories made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mlx.core as mx

from mlxbatch.convert import kokoro_layout
from mlxbatch.convert.beside import beside
from mlxbatch.convert.checkpoint import Checkpoint, Weight
from mlxbatch.convert.file_layout import is_turned
from mlxbatch.convert.foreign import reader_of
from mlxbatch.convert.opening import Reader, Source, packing, weights
from mlxbatch.convert.readers.directory import read_directory
from mlxbatch.errors import SetupError, UsageError, show
from mlxbatch.models.architecture import architecture, read_json
from mlxbatch.models.exact import check_deepfilter, check_ge2e, check_kokoro
from mlxbatch.models.weights import weight_files
from mlxbatch.vad.check import check_silero


@dataclass(frozen=True, slots=True)
class Packaged:
    """An architecture of the catalogue's: what it is for, whether a directory of it is whole, what MLX can pack."""

    task: Any
    check: Callable[[Path], None]
    layers: Callable[[Mapping[str, Any]], frozenset[str]] = lambda config: frozenset()


PACKAGED = {
    "kokoro": Packaged("synthesize", check_kokoro, kokoro_layout.quantizable),
    "deepfilternet": Packaged("separate", check_deepfilter),
    "ge2e": Packaged("speaker", check_ge2e),
    "silero_vad": Packaged("vad", check_silero),
}


def _published(source: Source) -> Checkpoint:
    read = reader_of(source.path)
    assert read is not None
    try:
        found = read(source.path, source.origin)
    except ValueError as error:
        raise SetupError(f"{show(source.path)}: {error}") from error
    files = [path for path in sorted(source.path.rglob("*")) if path.is_file()]
    return replace(_for_task(found, source), origin=source.read_from(files))


def _directory(source: Source) -> Checkpoint:
    config_path = source.path / "config.json"
    config = read_json(config_path)
    kind = architecture(config)
    packaged = PACKAGED[kind]
    packaged.check(source.path)
    found = weights(read_directory(source.path, source.opened))
    origin = source.read_from([config_path, *weight_files(source.path)])
    turned = {name: _as_mlx(kind, name, weight) for name, weight in found.items()}
    layers = packaged.layers(config)
    checkpoint = Checkpoint(kind, packaged.task, config, turned, layers, beside(source.path), origin)
    return _for_task(checkpoint, source)


def _for_task(checkpoint: Checkpoint, source: Source) -> Checkpoint:
    if source.task not in (None, checkpoint.task):
        raise UsageError(f"{show(source.origin.source)}: a {checkpoint.architecture!r} is not for {source.task}")
    return checkpoint


def _as_mlx(kind: str, name: str, weight: Weight) -> Weight:
    """A weight in MLX's layout, where its file has it the other way round."""
    if len(weight.shape) < 2:
        return weight
    *before, last, other = weight.shape
    shape = (*before, other, last)
    if not is_turned(kind, name, shape, packed=False):
        return weight
    return Weight(shape, weight.kind, lambda: mx.contiguous(mx.swapaxes(weight.read(), -1, -2)))


def _is_one(path: Path) -> bool:
    """A directory in MLX's layout of one of these, with plain weights: of packed ones mlx-audio knows more."""
    config_path = path / "config.json"
    try:
        config = read_json(config_path)
        return architecture(config) in PACKAGED and packing(config, config_path) is None
    except SetupError:
        return False


READERS = (
    Reader("ONNX, or Resemblyzer's .pt", lambda path: reader_of(path) is not None, _published),
    Reader("a packaged model's directory", _is_one, _directory),
)
