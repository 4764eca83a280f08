"""From what the user calls a model (a directory, a catalogue name, a hub id) to a whole directory and its identity."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mlxbatch.errors import SetupError, show
from mlxbatch.models import catalogue, kinds
from mlxbatch.models.cache import model_directory
from mlxbatch.models.catalogue import CatalogueModel
from mlxbatch.models.fetch import pull
from mlxbatch.models.identity import model_sha
from mlxbatch.words import nearest, size

Say = Callable[[str], None]
Kind = Literal["directory", "catalogue", "hub", "unknown"]

# What a Whisper needs; repositories often carry the same weights for other frameworks too.
WANTED = (
    "config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "*.safetensors",
    "model.safetensors.index.json",
)
UNWANTED = ("*.fp32*", "*/*")
_HUB_ID = re.compile(r"(?P<repo>[\w-][\w.-]*/[\w-][\w.-]*)(?:@(?P<revision>\S+))?")


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model that is whole and on this machine. `sha` (sha256, hex) is what stored results are keyed by."""

    name: str
    path: Path
    sha: str


def resolve(name: str, *, offline: bool, say: Say) -> ResolvedModel:
    """Find the model: an existing directory, a catalogue name, or `org/name[@revision]` on the Hugging Face hub.

    Catalogue and hub models are fetched when missing, unless `offline`. Raises SetupError where there is no such
    model, it cannot be fetched, or it is not whole.
    """
    path = _locate(name, offline=offline, say=say)
    kinds.kind_of(catalogue.find(name)).check(path)
    return ResolvedModel(name, path, model_sha(path))


def kind_of(name: str) -> Kind:
    """What a name stands for, whether or not that is there or whole."""
    # os.path, as Path's own raise where there is no home, or for names no file system takes.
    if os.path.exists(os.path.expanduser(name)):  # noqa: PTH110, PTH111
        return "directory"
    if catalogue.find(name):
        return "catalogue"
    if _HUB_ID.fullmatch(name):
        return "hub"
    return "directory" if os.sep in name or name.startswith((".", "~")) else "unknown"


def _locate(name: str, *, offline: bool, say: Say) -> Path:
    if kind_of(name) == "directory":
        return _directory(name)
    if model := catalogue.find(name):
        return _from_catalogue(model, offline=offline, say=say)
    if match := _HUB_ID.fullmatch(name):
        return _from_hub(match["repo"], match["revision"], offline=offline, say=say)
    raise SetupError(_unknown(name))


def _directory(name: str) -> Path:
    given = os.path.expanduser(name)  # noqa: PTH111
    if os.path.isdir(given):  # noqa: PTH112
        return Path(given).absolute()
    if os.path.exists(given):  # noqa: PTH110
        raise SetupError(f"{show(name)}: a file; name the model's directory")
    raise SetupError(f"{show(name)}: no such model directory")


def _unknown(name: str) -> str:
    known = catalogue.names()
    hint = nearest(name.lower(), known) or "."
    return f"unknown model '{show(name)}'{hint} Known: {', '.join(known)}; or a directory, or a hub id such as org/name"


def _from_catalogue(model: CatalogueModel, *, offline: bool, say: Say) -> Path:
    directory = model_directory(model.name)
    if not offline:
        return pull(model, say)
    if not directory.exists():
        remedy = f"run `mlxbatch models pull {model.name}` once ({size(model.size_bytes)})"
        raise SetupError(f"{model.name} is not on this machine, and this run is offline: {remedy}")
    return directory


def _from_hub(repo: str, revision: str | None, *, offline: bool, say: Say) -> Path:
    """The snapshot in the hub's own cache ($HF_HOME, $HF_ENDPOINT and its token hold)."""
    # Read when the hub is imported; the user's own setting wins.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    if not offline:
        say(f"{repo}: looking it up on the model hub")
    try:
        with _no_bars():
            path = snapshot_download(
                repo,
                revision=revision,
                allow_patterns=list(WANTED),
                ignore_patterns=list(UNWANTED),
                local_files_only=offline,
                library_name="mlxbatch",
            )
    except LocalEntryNotFoundError as error:
        raise SetupError(_not_local(repo, revision, offline=offline)) from error
    except Exception as error:
        # The hub lets its HTTP library's errors through, and has changed that library before: all of them mean
        # that the model could not be had.
        raise SetupError(f"{repo}: {_first_line(error)}") from error
    return Path(path)


def _not_local(repo: str, revision: str | None, *, offline: bool) -> str:
    what = f"{repo}@{revision}" if revision else repo
    if offline:
        return f"{what} is not in the hub's cache on this machine, and this run is offline: run it online once"
    return f"{what}: the model hub cannot be reached, and the model is not in its cache on this machine"


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # Hub errors begin with a status line and say what is wrong in the line after it.
    wordy = [line for line in lines if "Request ID" not in line]
    return (wordy or lines or [type(error).__name__])[0]


@contextmanager
def _no_bars() -> Iterator[None]:
    """The hub's progress bars off, and back to what they were."""
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    if are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()
