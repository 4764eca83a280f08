"""Which models are on this machine, and whether they are whole."""

from __future__ import annotations

from collections.abc import Iterator

from mlxbatch.doctor.finding import Case, Finding, settings_if_right
from mlxbatch.errors import SetupError, show
from mlxbatch.words import size


def check(case: Case) -> Iterator[Finding]:
    from mlxbatch.models.cache import models_root
    from mlxbatch.models.catalogue import CATALOGUE, names

    wanted = _wanted(case)
    yield Finding("ok", "models", f"fetched models are kept in {show(models_root())}")
    for model in CATALOGUE:
        yield from _catalogue_model(model.name, model.size_bytes, wanted=model.name in wanted)
    for name in wanted:
        if name not in names():
            yield _other_model(name)


def _wanted(case: Case) -> tuple[str, ...]:
    """The models that the profile names, each once."""
    loaded = settings_if_right(case)
    if loaded is None:
        return ()
    profile = loaded.profile
    vad = "silero-vad" if profile.transcribe.vad else ""
    names = (profile.transcribe.model, profile.governor.fallback_model, vad)
    return tuple(dict.fromkeys(name for name in names if name))


def _catalogue_model(name: str, download: int, *, wanted: bool) -> Iterator[Finding]:
    from mlxbatch.models.cache import model_directory
    from mlxbatch.models.catalogue import find
    from mlxbatch.models.kinds import kind_of

    whose = f"{name}{', the profile names it' if wanted else ''}"
    directory = model_directory(name)
    remedy = f"mlxbatch models pull {name}"
    if not directory.exists():
        what = f"{whose}: not on this machine ({size(download)} to download)"
        yield Finding("warning", "models", what, remedy) if wanted else Finding("ok", "models", what)
        return
    try:
        kind_of(find(name)).check(directory)
    except SetupError as error:
        yield Finding("problem", "models", f"{whose}: not whole: {error}", remedy)
    else:
        yield Finding("ok", "models", f"{whose}: whole")


def _other_model(name: str) -> Finding:
    """A directory, or a model of the hub: found and checked as a run would, without the network."""
    from mlxbatch.models.resolve import resolve

    try:
        found = resolve(name, offline=True, say=lambda text: None)
    except SetupError as error:
        return Finding("problem", "models", str(error), _remedy(name))
    return Finding("ok", "models", f"{show(name)}, the profile names it: whole, in {show(found.path)}")


def _remedy(name: str) -> str:
    """Only what lies on a server can be fetched, or fetched again."""
    from mlxbatch.models.resolve import kind_of

    kind = kind_of(name)
    if kind == "directory":
        return "name the directory of a whole model, with --model or in the profile"
    return "mlxbatch models list" if kind == "unknown" else f"mlxbatch models pull {show(name)}"
