"""All weights of a model directory, from whichever files it keeps them in, each held open as long as they are used."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path

from mlxbatch.convert.readers.npz import BROKEN, read_npz
from mlxbatch.convert.readers.ranges import Ranges, at_fault
from mlxbatch.convert.readers.safetensors import read_safetensors
from mlxbatch.convert.readers.stored import Stored
from mlxbatch.errors import SetupError, show
from mlxbatch.models.weights import AGAIN, INDEX, weight_files

# What GPTQ and AWQ call the parts of a packed matrix, also where config.json does not own up to it.
_FOREIGN_PARTS = (".qweight", ".qzeros", ".g_idx")


def read_directory(directory: Path, opened: ExitStack) -> dict[str, Stored]:
    """Every weight by its name, of the files that `weight_files` chooses; they are closed with `opened`.

    Raises SetupError where a file is missing or damaged, shards and index do not agree, two files hold the same
    weight, or the weights are quantized in a form that is not MLX's.
    """
    stored: dict[str, Stored] = {}
    where: dict[str, Path] = {}
    files = weight_files(directory)
    for path in files:
        for name, one in read_file(path, opened).items():
            if name in stored:
                raise SetupError(f"{show(path)}: holds {name}, as {show(where[name].name)} does: take one of them away")
            stored[name], where[name] = one, path
    if files[0].name != "model.safetensors" and (directory / INDEX).exists():
        _check_index(directory / INDEX, where)
    if packed := next((name for name in stored if name.endswith(_FOREIGN_PARTS)), None):
        raise SetupError(
            f"{show(where[packed])}: {packed} is quantized by GPTQ or AWQ: convert the model it was made from"
        )
    return stored


def read_file(path: Path, opened: ExitStack) -> dict[str, Stored]:
    """Every weight of one file, safetensors or npz. Raises SetupError."""
    with at_fault(path, AGAIN):
        if path.suffix == ".npz":
            return read_npz(open_zip(path, opened))
        return read_safetensors(opened.enter_context(closing(Ranges(path))))


def open_zip(path: Path, opened: ExitStack) -> zipfile.ZipFile:
    """ValueError where it is no zip, SetupError where it cannot be opened."""
    try:
        return opened.enter_context(zipfile.ZipFile(path))
    except FileNotFoundError as error:
        raise SetupError(f"{show(path)}: {error.strerror}") from error
    except BROKEN as error:
        raise ValueError(f"no zip archive, or cut short ({error})") from error


def _check_index(index: Path, where: Mapping[str, Path]) -> None:
    """Each weight that the index names is in the shard that it names."""
    for name, shard in json.loads(index.read_bytes())["weight_map"].items():
        if name not in where:
            raise SetupError(f"{show(index.parent / shard)}: lacks the weight {name}, which {index.name} puts there")
        if where[name].name != shard:
            raise SetupError(f"{show(index)}: puts {name} into {show(shard)}, but it is in {show(where[name].name)}")
