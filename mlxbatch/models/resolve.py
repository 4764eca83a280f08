"""From what the user calls a model (a directory, a catalogue name, a hub id) to a whole directory and its identity."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mlxbatch.errors import NotHere, SetupError, UsageError, show
from mlxbatch.models import catalogue, kinds
from mlxbatch.models.cache import model_directory
from mlxbatch.models.catalogue import CatalogueModel
from mlxbatch.models.fetch import is_fetched, pull
from mlxbatch.models.hub import HUB_ID, Wanted, fetch, is_here
from mlxbatch.models.identity import model_sha
from mlxbatch.models.one_fetch import Say
from mlxbatch.models.repair import repaired
from mlxbatch.models.whole import check_model
from mlxbatch.words import nearest, size

Kind = Literal["directory", "catalogue", "hub", "unknown"]


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model that is whole and on this machine. `sha` (sha256, hex) is what stored results are keyed by."""

    name: str
    path: Path
    sha: str


def resolve(name: str, *, offline: bool, say: Say, scratch: Path | None = None) -> ResolvedModel:
    """Find the model: an existing directory, a catalogue name, or `org/name[@revision]` on the Hugging Face hub.

    Catalogue and hub models are fetched when missing, unless `offline`. A Whisper whose tokenizer is missing or lacks
    parts is repaired, in our cache, or in `scratch`, where only a look is taken: then our cache is left as it is.

    Raises SetupError where there is no such model, it cannot be fetched, or it is not whole; NotHere where it is
    `offline` that it cannot be fetched.
    """
    directory = locate(name, offline=offline, say=say)
    model = catalogue.find(name) if kind_of(name) == "catalogue" else None
    with _pulled_again(model):
        path = repaired(directory, name, offline=offline, say=say, scratch=scratch)
        _check(path, model)
    return ResolvedModel(name, path, model_sha(path, keep=scratch is None))


def resolve_package(name: str, *, offline: bool, say: Say) -> ResolvedModel:
    """A catalogue's model that comes from packages, by its name alone: whatever is called so where the user stands.

    Raises SetupError as `resolve` does.
    """
    model = known(name)
    path = _from_packages(model, offline=offline, say=say)
    with _pulled_again(model):
        kinds.kind_of(model).check(path)
    return ResolvedModel(name, path, model_sha(path))


def _check(path: Path, model: CatalogueModel | None) -> None:
    """A packaged model that recognizes no speech is of no family that an engine runs, and is checked as its kind."""
    if model is not None and model.sources and model.task != "transcribe":
        kinds.kind_of(model).check(path)
    else:
        check_model(path)


@contextmanager
def _pulled_again(model: CatalogueModel | None) -> Iterator[None]:
    """A model of packages that is damaged is as good as not there: `pull` would not have left it so."""
    try:
        yield
    except SetupError as error:
        if model is not None and model.sources:
            raise NotHere(str(error)) from error
        raise


def known(name: str) -> CatalogueModel:
    """The catalogue's model of that name; SetupError that names the nearest ones."""
    if model := catalogue.find(name):
        return model
    raise SetupError(f"{_unknown(name)} `mlxbatch models list` has the names")


def on_disk(model: CatalogueModel) -> bool:
    """Whether the model is on this machine; a model of the hub is not compared with its hashes here."""
    return is_fetched(model) if model.sources else is_here(Wanted(model.name, model.hub))


def kind_of(name: str) -> Kind:
    """What a name stands for, whether or not that is there or whole."""
    # os.path, as Path's own raise where there is no home, or for names no file system takes.
    if os.path.exists(os.path.expanduser(name)):  # noqa: PTH110, PTH111
        return "directory"
    if catalogue.find(name):
        return "catalogue"
    if HUB_ID.fullmatch(name):
        return "hub"
    return "directory" if os.sep in name or name.startswith((".", "~")) else "unknown"


def locate(name: str, *, offline: bool, say: Say, revision: str | None = None, to_convert: bool = False) -> Path:
    """The model's directory, fetched where it is not here; whether it is whole is not asked. Raises as `resolve` does.

    `to_convert`: in any format that the converter reads, or a file. Raises UsageError for a `revision` of a model that
    is not the hub's, or beside another one in the name.
    """
    model = catalogue.find(name)
    if kind_of(name) == "directory":
        _refuse_revision(name, revision)
        return _file_or_directory(name) if to_convert else _directory(name)
    if model and model.sources:
        _refuse_revision(name, revision)
        return _from_packages(model, offline=offline, say=say)
    if model:
        return fetch(Wanted(name, model.hub, revision, to_convert), offline=offline, say=say)
    return fetch(_by_id(name, revision, to_convert), offline=offline, say=say)


def _refuse_revision(name: str, revision: str | None) -> None:
    if revision:
        raise UsageError(f"{show(name)}: --revision is for models of the hub, which this is not: leave it out")


def _by_id(name: str, revision: str | None, to_convert: bool) -> Wanted:
    match = HUB_ID.fullmatch(name)
    if not match:
        known = "`mlxbatch models list` has the names; or give a directory, or a hub id such as org/name"
        raise SetupError(f"{_unknown(name)} {known}")
    if revision and match["revision"] not in (None, revision):
        raise UsageError(
            f"{show(name)}: its revision is not that of --revision {show(revision)}: leave out one of them"
        )
    return Wanted(name, match["repo"], revision or match["revision"], to_convert)


def _file_or_directory(name: str) -> Path:
    given = Path(os.path.expanduser(name))  # noqa: PTH111
    return given.absolute() if given.is_file() else _directory(name)


def _directory(name: str) -> Path:
    given = os.path.expanduser(name)  # noqa: PTH111
    if os.path.isdir(given):  # noqa: PTH112
        return Path(given).absolute()
    if os.path.exists(given):  # noqa: PTH110
        raise SetupError(f"{show(name)}: a file; name the model's directory")
    raise SetupError(f"{show(name)}: no such model directory")


def _unknown(name: str) -> str:
    hint = nearest(name.lower(), catalogue.names()) or ";"
    return f"unknown model '{show(name)}'{hint}"


def _from_packages(model: CatalogueModel, *, offline: bool, say: Say) -> Path:
    directory = model_directory(model.name)
    if not offline:
        return pull(model, say)
    if not directory.exists():
        remedy = f"run `mlxbatch models pull {model.name}` once ({size(model.size_bytes)})"
        what = f"{model.name} is not on this machine"
        raise NotHere(f"{what}, and this run is offline: {remedy}", what)
    return directory
