"""The files that go along with a model's weights when it is converted: settings, tokenizers, voices, the licence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mlxbatch.convert.whisper_files import as_json
from mlxbatch.errors import SetupError
from mlxbatch.models.architecture import read_json
from mlxbatch.models.hub.wanted import FOLDERS
from mlxbatch.models.weights import SETTINGS

NOT_ALONG = ("config.json", "quality.json")  # made anew


def beside(directory: Path) -> dict[str, bytes | Path]:
    """By their names in the directory, those of its FOLDERS with the folder's; files that would be none of a model's,
    programs among them, stay behind."""
    paths = [path for path in directory.iterdir() if path.name not in NOT_ALONG and _goes_along(path)]
    paths += [path for folder in FOLDERS for path in (directory / folder).glob("*") if path.is_file()]
    return {path.relative_to(directory).as_posix(): _content(path) for path in sorted(paths)}


def _goes_along(path: Path) -> bool:
    licence = path.name.startswith(("LICENSE", "LICENCE", "NOTICE"))
    settings = path.name.endswith(SETTINGS) and not path.name.endswith(".index.json")
    return path.is_file() and (licence or settings)


def _content(path: Path) -> bytes | Path:
    """The file itself, or it without the programs that it tells transformers to run: no model here needs one."""
    if path.suffix != ".json" or b'"auto_map"' not in path.read_bytes():
        return path
    try:
        return as_json(without_programs(read_json(path)))
    except SetupError:
        return path


def without_programs(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key != "auto_map"}
