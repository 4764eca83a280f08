"""Which models are on this machine, and whether they are whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from mlxbatch.doctor.finding import Case, Finding, settings_if_right
from mlxbatch.errors import NotHere, SetupError, show
from mlxbatch.words import size

if TYPE_CHECKING:
    from mlxbatch.models.catalogue import CatalogueModel


def check(case: Case) -> Iterator[Finding]:
    from mlxbatch.models.cache import models_root
    from mlxbatch.models.catalogue import CATALOGUE, find

    wanted = _wanted(case)
    yield Finding("ok", "models", f"fetched models are kept in {show(models_root())}")
    packages = [model for model in CATALOGUE if model.sources]
    for model in packages:
        yield from _catalogue_model(model, wanted=model.name in wanted)
    yield _of_the_hub()
    for name in wanted:
        known = find(name)
        if known is None or not known.sources:
            yield _other_model(name)


def _of_the_hub() -> Finding:
    """Which of the catalogue's hub models are in the hub's cache; whether they are whole is seen when one is used."""
    from mlxbatch.models.catalogue import CATALOGUE
    from mlxbatch.models.resolve import on_disk

    models = [model for model in CATALOGUE if not model.sources]
    here = [model.name for model in models if on_disk(model)]
    what = f"{', '.join(here) or 'none'} of the catalogue's {len(models)} models of the hub on this machine"
    return Finding("ok", "models", what)


def _wanted(case: Case) -> tuple[str, ...]:
    """The models that the profile names, each once."""
    loaded = settings_if_right(case)
    if loaded is None:
        return ()
    profile = loaded.profile
    vad = "silero-vad" if profile.transcribe.vad else ""
    names = (profile.transcribe.model, profile.governor.fallback_model, vad)
    return tuple(dict.fromkeys(name for name in names if name))


def _catalogue_model(model: CatalogueModel, *, wanted: bool) -> Iterator[Finding]:
    from mlxbatch.models.cache import model_directory
    from mlxbatch.models.kinds import kind_of
    from mlxbatch.models.repair import plan

    name = model.name
    whose = f"{name}{', the profile names it' if wanted else ''}"
    directory = model_directory(name)
    remedy = f"mlxbatch models pull {name}"
    if not directory.exists():
        what = f"{whose}: not on this machine ({size(model.size_bytes)} to download)"
        yield Finding("warning", "models", what, remedy) if wanted else Finding("ok", "models", what)
        return
    try:
        what, _ = plan(directory, offline=True, say=lambda text: None)
        if not what:
            kind_of(model).check(directory)
    except SetupError as error:
        yield Finding("problem", "models", f"{whose}: not whole: {error}", remedy)
    else:
        yield (
            Finding("note", "models", f"{whose}: {what}", remedy)
            if what
            else Finding("ok", "models", f"{whose}: whole")
        )


def _other_model(name: str) -> Finding:
    """A directory, or a model of the hub: found and checked as a run would, without the network."""
    from mlxbatch.engines.families import family_of, require
    from mlxbatch.models.resolve import resolve

    try:
        with TemporaryDirectory(prefix="mlxbatch-") as scratch:
            repairs: list[str] = []
            found = resolve(name, offline=True, say=repairs.append, scratch=Path(scratch))
            family = family_of(found.path)
    except NotHere as error:
        return Finding("problem", "models", error.what or str(error), _remedy(name))
    except SetupError as error:
        return Finding("problem", "models", str(error), _remedy(name))
    try:
        require(family)
    except SetupError as error:
        return Finding("problem", "models", f"{show(name)}, the profile names it: {error}")
    what = repairs[0] if repairs else f"{show(name)}, the profile names it: whole, in {show(found.path)}"
    return Finding("note" if repairs else "ok", "models", what)


def _remedy(name: str) -> str:
    """Only what lies on a server can be fetched, or fetched again."""
    from mlxbatch.models.resolve import kind_of

    kind = kind_of(name)
    if kind == "directory":
        return "name the directory of a whole model, with --model or in the profile"
    return "mlxbatch models list" if kind == "unknown" else f"mlxbatch models pull {show(name)}"
