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
from mlxbatch.convert.proof.separation import separate
from mlxbatch.convert.proof.synthesis import speak
from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.families import FAMILIES
from mlxbatch.models.architecture import architecture, read_json


def prove(
    original: Path,
    converted: Path,
    clips: Clips,
    level: Level,
    *,
    task: str,
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
    """With what both models do, for those of which that is measured."""
    if found.architecture in FAMILIES:
        return _recognised(found, original, converted, clips, spec, say)
    if found.architecture == "kokoro":
        spoken = speak(original, converted, found.level, spec, say)
        missing = (*found.not_measured, *spoken.not_measured)
        found = replace(found, synthesis=spoken.figures, not_measured=missing)
        return replace(found, speed_original=spoken.original, speed_converted=spoken.converted)
    if found.architecture == "deepfilternet":
        sounds = clips.sounds(found.level)
        separated = separate(original, converted, sounds, spec, say)
        found = replace(found, calibration=clips.described(sounds, 0), separation=separated.figures)
        return replace(found, speed_original=separated.original, speed_converted=separated.converted)
    what = f"what both models do: of {found.architecture} the weights alone are compared"
    return replace(found, not_measured=(*found.not_measured, what))


def _recognised(
    found: Quality, original: Path, converted: Path, clips: Clips, spec: EngineSpec, say: Callable[[str], None]
) -> Quality:
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
