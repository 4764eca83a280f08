"""A model of the hub as a directory: looked up, completed in the hub's cache, every file compared with its hash."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlxbatch.disk import cause
from mlxbatch.errors import NotHere, SetupError, show
from mlxbatch.models.hub.faults import AGAIN, Say, first_line, may_pass, not_here, not_reached, patiently, refusal
from mlxbatch.models.hub.large import fetch_large
from mlxbatch.models.hub.wanted import CTRANSLATE2, FOLDERS, RemoteFile, Wanted, needed
from mlxbatch.models.identity import file_sha
from mlxbatch.models.weights import weight_files

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo


def fetch(wanted: Wanted, *, offline: bool, say: Say) -> Path:
    """The model's snapshot in the hub's cache, fetched as far as it is not there, and checked.

    Raises SetupError, in one line, where it cannot be had or is not what the hub publishes. What was fetched of it so
    far stays, to be continued by the next fetch.
    """
    # Read when the hub's library is imported; the user's own setting wins.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    with _quiet(), _disk_errors(wanted):
        here = _snapshot(wanted)
        if offline or _offline_by_environment():
            return _checked(wanted, here, not_here(wanted))
        say(f"{wanted}: looking it up on the model hub")
        try:
            info = _look_up(wanted, once=here is not None, say=say)
        except Exception as error:
            return _instead(wanted, here, error, say)
        return _complete(wanted, info, here, say)


def _instead(wanted: Wanted, here: Path | None, error: Exception, say: Say) -> Path:
    """What an earlier fetch left, whatever the hub says now; else an error that says what it said."""
    refused = refusal(wanted, error)
    if refused is error:  # a stop, or the disk
        raise error
    if here is None and not may_pass(error):
        raise refused from error
    path = _checked(wanted, here, not_reached(wanted, error))
    say(f"{wanted}: the model hub does not answer for it ({first_line(error)}): taking what is in its cache here")
    return path


def is_here(wanted: Wanted) -> bool:
    """Whether the hub's cache has a snapshot of it with weights; their bytes are not compared with their hashes."""
    with _quiet():
        here = _snapshot(wanted)
    return here is not None and _has_weights(wanted, here)


def _has_weights(wanted: Wanted, snapshot: Path) -> bool:
    try:
        weight_files(snapshot)
    except SetupError:
        return wanted.to_convert and (snapshot / CTRANSLATE2).exists()
    return True


def _look_up(wanted: Wanted, *, once: bool, say: Say) -> ModelInfo:
    """The commit that the revision means now, and its files; asked `once` where an answer is not needed."""
    from huggingface_hub import HfApi

    def ask() -> ModelInfo:
        api = HfApi(library_name="mlxbatch")
        return api.model_info(wanted.repo, revision=wanted.revision, files_metadata=True, timeout=30)

    return ask() if once else patiently(ask, wanted, say)


def _checked(wanted: Wanted, here: Path | None, otherwise: SetupError) -> Path:
    """What an earlier fetch left; raises `otherwise` where there is nothing, or no weights."""
    if here is None or not _has_weights(wanted, here):
        raise otherwise
    _refuse_damaged(wanted, here)
    return here


def _complete(wanted: Wanted, info: ModelInfo, here: Path | None, say: Say) -> Path:
    """Make the snapshot whole: damaged files out, large ones by us, the rest and the layout by the hub's library."""
    files, commit = _files(wanted, info), str(info.sha)
    if here is not None and here.name == commit:
        for path in _damaged(wanted, here):
            say(f"{wanted}: {path.name} in the hub's cache is damaged, and is fetched again")
            _remove(path)
        if all((here / file.name).exists() for file in files):
            return here
    for file in files:
        if file.sha256 is not None:
            fetch_large(wanted, commit, file, say)
    path = _lay_out(wanted, [file.name for file in files], say)
    _refuse_damaged(wanted, path)
    return path


def _files(wanted: Wanted, info: ModelInfo) -> list[RemoteFile]:
    listed = {file.rfilename: file for file in info.siblings or []}
    names = needed(listed, to_convert=wanted.to_convert)
    if "config.json" not in names:
        lacks = "config.json" if names else "*.safetensors (or weights.npz)"
        raise SetupError(f"{wanted}: it has no {lacks}, so it is no model in MLX's or Hugging Face's layout")
    return [_remote(listed[name]) for name in names]


def _remote(file: Any) -> RemoteFile:
    # The LFS record is a mapping in some versions of the library, an object with the same names in others.
    record = file.lfs
    sha256 = record.get("sha256") if isinstance(record, dict) else getattr(record, "sha256", None)
    if sha256 is not None and not re.fullmatch("[0-9a-f]{64}", str(sha256)):
        # It becomes the name of a file in the cache.
        raise SetupError(f"{show(file.rfilename)}: the hub gives {show(str(sha256))} for its sha256, which is none")
    return RemoteFile(file.rfilename, file.size, sha256)


def _lay_out(wanted: Wanted, names: list[str], say: Say) -> Path:
    from huggingface_hub import snapshot_download

    def link() -> str:
        return snapshot_download(
            wanted.repo, revision=wanted.revision, allow_patterns=names, library_name="mlxbatch", max_workers=4
        )

    try:
        return Path(patiently(link, wanted, say))
    except Exception as error:
        raise refusal(wanted, error) from error


def _snapshot(wanted: Wanted) -> Path | None:
    """The snapshot that the hub's cache has under the name asked for; SetupError for a name that no repository has."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(wanted.repo)
    except ValueError as error:
        raise refusal(wanted, error) from error
    config = try_to_load_from_cache(wanted.repo, "config.json", revision=wanted.revision)
    return Path(config).parent if isinstance(config, str) else None


# ---- the published bytes, or none


def _refuse_damaged(wanted: Wanted, snapshot: Path) -> None:
    if damaged := _damaged(wanted, snapshot):
        for path in damaged:
            _remove(path)
        names = ", ".join(path.name for path in damaged)
        raise NotHere(f"{wanted}: {names}: not what the hub publishes (the hash differs): removed; {AGAIN}")


def _damaged(wanted: Wanted, snapshot: Path) -> list[Path]:
    """Those of the files that are used; others fetched more, and their pickles are none of our business."""
    there = [path for place in ("", *FOLDERS) for path in (snapshot / place).glob("*")]
    names = [path.relative_to(snapshot).as_posix() for path in there]
    paths = [snapshot / name for name in needed(names, to_convert=wanted.to_convert)]
    return [path for path in paths if path.is_file() and not _as_published(path)]


def _as_published(path: Path) -> bool:
    """The hub's cache calls each file by its hash: sha256 of large ones, of others what git calls them."""
    real = path.resolve()
    if re.fullmatch(r"[0-9a-f]{64}", real.name):
        return file_sha(real) == real.name
    if re.fullmatch(r"[0-9a-f]{40}", real.name):
        content = real.read_bytes()
        blob = f"blob {len(content)}\0".encode() + content
        return hashlib.sha1(blob, usedforsecurity=False).hexdigest() == real.name
    return True  # a copy, where the file system has no links; or a mirror's own name for it


def _remove(path: Path) -> None:
    path.resolve().unlink(missing_ok=True)
    path.unlink(missing_ok=True)


# ---- around all of it


@contextlib.contextmanager
def _disk_errors(wanted: Wanted) -> Iterator[None]:
    """Writing to the hub's cache: a full disk or a directory that is not ours, in one line."""
    try:
        yield
    except OSError as error:
        from huggingface_hub import constants

        where = show(constants.HF_HUB_CACHE)
        raise SetupError(f"{wanted}: {where}: {cause(error)}; HF_HOME sets another place") from error


def _offline_by_environment() -> bool:
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The hub's progress bars and warnings off, and back to what they were: what happens is said by us."""
    from huggingface_hub.utils import logging as hub_logging
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    bars, verbosity = not are_progress_bars_disabled(), hub_logging.get_verbosity()
    disable_progress_bars()
    hub_logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        hub_logging.set_verbosity(verbosity)
        if bars:
            enable_progress_bars()
