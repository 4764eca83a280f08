"""The proof itself: an original and a converted model directory in, what the conversion cost out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from mlxbatch import __version__
from mlxbatch.convert.origin import Origin
from mlxbatch.convert.proof.clips import Clips
from mlxbatch.convert.proof.hearing import profile_spec
from mlxbatch.convert.proof.layers import layer_errors, weights
from mlxbatch.convert.proof.quality import Level, Quality
from mlxbatch.convert.proof.recognition import recognise
from mlxbatch.engines.base import EngineSpec
from mlxbatch.models.architecture import architecture, read_json
from mlxbatch.types import Task


def prove(
    original: Path,
    converted: Path,
    clips: Clips,
    level: Level,
    *,
    task: Task,
    spec: EngineSpec | None = None,
    origin: Origin | None = None,
    dtype: str | None = None,
    kept: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Quality:
    """Compare two directories that mlxbatch can load.

    "quick" compares every weight and tries both models on the first clips, "full" on all of them, "none" looks at sizes
    alone. `spec` is how the engines are set (None: by this machine's profile); `origin`, `dtype` and `kept`, why a
    layer stays plain, are handed on. `say` is told each stage. All arguments but `say`, and the result, can be pickled,
    so that it can run in a process of its own.

    Raises SetupError where a directory is no whole model or the original cannot hear a clip, ItemError for a clip that
    cannot be decoded.
    """
    found = Quality(
        task=task,
        architecture=architecture(read_json(converted / "config.json")),
        level=level,
        original=weights(original),
        converted=weights(converted),
        origin=origin,
        dtype=dtype,
        kept=dict(kept or {}),
        made_with={name: metadata.version(name) for name in ("mlx", "numpy")} | {"mlxbatch": __version__},
    )
    if level == "none":
        return replace(found, not_measured=("everything but sizes: --verify none",))
    say("comparing weights")
    compared = layer_errors(original, converted)
    missing = [f"error of {name}: the original has no weight of that name" for name in compared.unknown]
    found = replace(found, layers=compared.errors, not_measured=tuple(missing))
    return _tried(found, original, converted, clips, spec or profile_spec(), say)


def _tried(
    found: Quality, original: Path, converted: Path, clips: Clips, spec: EngineSpec, say: Callable[[str], None]
) -> Quality:
    """With what both models do on the clips, for a task of which that is measured."""
    if found.task != "transcribe":
        what = f"what both models do: there is no proof by listening for {found.task}, its weights alone are compared"
        return replace(found, not_measured=(*found.not_measured, what))
    sounds = clips.sounds(found.level)
    heard = recognise(original, converted, sounds, spec, say)
    return replace(
        found,
        calibration=clips.described(sounds, heard.words),
        recognition=heard.figures,
        speed_original=heard.original,
        speed_converted=heard.converted,
        not_measured=(*found.not_measured, *heard.not_measured),
    )
