"""Checkpoints of mlx-audio's other architectures, by its own classes: Parakeet, Qwen3-ASR, Kokoro and many more."""

from __future__ import annotations

from typing import Any

from mlxbatch.convert.beside import beside, without_programs
from mlxbatch.convert.checkpoint import Checkpoint
from mlxbatch.convert.opening import Reader, Source, packing
from mlxbatch.convert.readers.directory import read_directory
from mlxbatch.engines.families import FAMILIES
from mlxbatch.errors import SetupError, UsageError, show
from mlxbatch.models.architecture import architecture, read_json
from mlxbatch.models.weights import weight_files
from mlxbatch.words import nearest


def _read(source: Source) -> Checkpoint:
    from mlxbatch.engines.mlx_audio import converting

    directory, config_path = source.path, source.path / "config.json"
    config = read_json(config_path)
    packed = packing(config, config_path)
    kind = architecture(config)
    home = converting.home(kind, source.task)
    if home is None:
        raise _unknown(source, kind)
    read_directory(directory, source.opened)  # mlx-audio's loader looks at neither lengths nor the index
    task, module = home
    found = converting.open_directory(directory, kind, module)
    return Checkpoint(
        architecture=kind,
        task=task,
        config=_named(without_programs(config), kind),
        weights=found.weights,
        layers=found.layers,
        files=beside(directory),
        origin=source.read_from([config_path, *weight_files(directory)]),
        quantized=packed is not None,
    )


def _named(config: dict[str, Any], kind: str) -> dict[str, Any]:
    """With the architecture in words, where it was told by other marks: mlx-audio would go by the directory's name."""
    return config if {"model_type", "architecture", "target"} & config.keys() else {"model_type": kind, **config}


def _unknown(source: Source, kind: str) -> Exception:
    if source.task is not None:
        return UsageError(f"{show(source.origin.source)}: no {kind!r} model that mlx-audio knows is for {source.task}")
    hint = nearest(kind, FAMILIES) or ";"
    config = show(source.path / "config.json")
    return SetupError(f"{config}: no architecture {kind!r} is known here or to mlx-audio{hint} --task may tell more")


READER = Reader("mlx-audio", lambda path: path.is_dir(), _read)
