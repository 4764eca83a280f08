"""Any published checkpoint, by the name the user has for it, as a Checkpoint with MLX's names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import get_args

from mlxbatch.convert import mlx_audio_checkpoints, packaged_checkpoints, whisper_checkpoints
from mlxbatch.convert.checkpoint import Checkpoint, Origin
from mlxbatch.convert.licence import licence_of
from mlxbatch.convert.opening import Reader, Source
from mlxbatch.errors import SetupError, UsageError, show
from mlxbatch.models import catalogue
from mlxbatch.models.one_fetch import Say
from mlxbatch.models.resolve import locate
from mlxbatch.types import Task

# In the order in which they are asked; the last takes any directory.
READERS: tuple[Reader, ...] = (
    *whisper_checkpoints.READERS,
    *packaged_checkpoints.READERS,
    mlx_audio_checkpoints.READER,
)


@contextmanager
def open_source(name: str, *, revision: str | None, task: str | None, offline: bool, say: Say) -> Iterator[Checkpoint]:
    """The checkpoint of a directory or file, a name of the catalogue, or a hub id (`org/name`, `org/name@revision`).

    What is not on this machine is fetched, unless `offline`. Files stay open as long as the context does, and
    weights can be read so long. The architecture is config.json's, or that of the weights' own format; `task` is the
    user's, None where the architecture tells.

    Raises UsageError for a task or a revision that the source cannot have, SetupError where the source is not there,
    not whole or of an unknown kind; NotHere where it could be fetched but for `offline`.
    """
    chosen = _task(task)
    path = locate(name, offline=offline, say=say, revision=revision, to_convert=True)
    with ExitStack() as opened:
        yield _reader(path).read(Source(path, _origin(name, path), chosen, offline, say, opened))


def _task(name: str | None) -> Task | None:
    known: tuple[Task, ...] = get_args(Task)
    for task in known:
        if task == name:
            return task
    if name is None:
        return None
    raise UsageError(f"--task {show(name)}: a model is for one of {', '.join(known)}")


def _reader(path: Path) -> Reader:
    for reader in READERS:
        if reader.knows(path):
            return reader
    kinds = "a model's directory, or a .pt of OpenAI's Whisper"
    raise SetupError(f"{show(path)}: no checkpoint of a kind that is read here: name {kinds}")


def _origin(name: str, path: Path) -> Origin:
    model = catalogue.find(name)
    directory = path if path.is_dir() else path.parent
    licence = model.licence if model else licence_of(directory)
    # The hub's cache calls a snapshot by its commit.
    revision = path.name if path.parent.name == "snapshots" else None
    return Origin(name, revision, licence)
