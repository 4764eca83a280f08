"""Is a directory that was made from a catalogue's packages whole: every weight there in its shape, and no other.

No weight is loaded. The loaders around would go on with random weights for those that are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mlxbatch.convert import deepfilter_layout, ge2e_layout, kokoro_layout
from mlxbatch.convert.file_layout import is_turned
from mlxbatch.errors import SetupError, show
from mlxbatch.models.architecture import architecture, read_json
from mlxbatch.models.weights import AGAIN, WHOLE, Shape, shapes, weight_files

Shapes = Callable[[Mapping[str, Any]], dict[str, Shape]]


def check_kokoro(directory: Path) -> None:
    """Raise SetupError that names the file at fault and what to do."""
    _check(directory, "kokoro", kokoro_layout.expected_shapes)
    if not any((directory / "voices").glob("*.safetensors")):
        raise SetupError(f"{show(directory / 'voices')}: no voice in it; {WHOLE}")


def check_deepfilter(directory: Path) -> None:
    """As `check_kokoro`."""
    _check(directory, "deepfilternet", deepfilter_layout.expected_shapes)


def check_ge2e(directory: Path) -> None:
    """As `check_kokoro`."""
    _check(directory, "ge2e", ge2e_layout.expected_shapes)


def _check(directory: Path, kind: str, expected: Shapes) -> None:
    if not directory.is_dir():
        raise SetupError(f"{show(directory)}: no such model directory")
    config = read_json(directory / "config.json")
    if architecture(config) != kind:
        raise SetupError(f"{show(directory / 'config.json')}: a {architecture(config)!r} model, no {kind!r}; {AGAIN}")
    try:
        wanted = expected(config)
    except (KeyError, TypeError, ValueError) as error:
        raise SetupError(
            f"{show(directory / 'config.json')}: not the sizes of a {kind!r} ({error}); {AGAIN}"
        ) from error
    (path, *_) = weight_files(directory)
    found = dict(shapes(path))
    for name, shape in wanted.items():
        if name not in found:
            raise SetupError(f"{show(path)}: lacks the weight {name}; {AGAIN}")
        if found[name] != (needed := _in_file(kind, name, shape)):
            raise SetupError(f"{show(path)}: {name} has shape {list(found[name])}, {list(needed)} is needed; {AGAIN}")
    if extra := sorted(found.keys() - wanted.keys()):
        raise SetupError(f"{show(path)}: {extra[0]} is no weight of a {kind!r}; {AGAIN}")


def _in_file(kind: str, name: str, shape: Shape) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2]) if is_turned(kind, name, shape, packed=False) else shape
