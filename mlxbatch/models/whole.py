"""Is a model directory whole, whatever family it is of: asked before any audio is read, without loading a weight."""

from __future__ import annotations

from pathlib import Path

from mlxbatch.engines.families import WHISPER, Family, family_of
from mlxbatch.errors import SetupError, show
from mlxbatch.models.architecture import read_json
from mlxbatch.models.check import check_whisper, is_quantized
from mlxbatch.models.weights import shapes, weight_files


def check_model(directory: Path) -> Family:
    """The model's family, once its directory is found whole; SetupError that names the file at fault and what to do.

    A Whisper is known to the last weight. Of another family the files are there and can be read; its weights are
    checked one by one when they are loaded, because only mlx-audio knows their names.
    """
    if not directory.is_dir():
        raise SetupError(f"{show(directory)}: no such model directory")
    family = family_of(directory)
    if family is WHISPER:
        check_whisper(directory)
        return family
    is_quantized(read_json(directory / "config.json"), directory / "config.json")
    for wanted in family.files:
        if not any((directory / name).exists() for name in wanted.split("|")):
            names = " or ".join(wanted.split("|"))
            raise SetupError(f"{show(directory / names)}: missing, {family.name} needs it; fetch the model again")
    for path in weight_files(directory):
        if not any(True for _ in shapes(path)):
            raise SetupError(f"{show(path)}: no weights in it; fetch the model again")
    _refuse_programs(directory)
    return family


def _refuse_programs(directory: Path) -> None:
    """transformers would run them, as mlx-audio lets it: those in the directory, and those that a setting names."""
    if code := sorted(directory.rglob("*.py")):
        raise SetupError(f"{show(code[0])}: a program among the model's files; take it away, no model here needs one")
    for path in sorted(directory.glob("*.json")):
        # In a vocabulary it may be a token, with a number.
        if b'"auto_map"' in path.read_bytes() and isinstance(read_json(path).get("auto_map"), dict | list | str):
            raise SetupError(f"{show(path)}: names programs to run (auto_map); take that key out, none is needed")
