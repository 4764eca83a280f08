"""Files that appear whole or not at all: written and synced in a scratch directory, then moved into place."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from mlxbatch.disk import FULL, cause
from mlxbatch.errors import ItemError, MlxBatchError, SetupError, show

# What ails the whole output root, beside a full disk, and what to do about it. Everything else is one file's failure.
_REMEDIES = {
    errno.EROFS: ("the file system is read-only", "choose another output directory with -o"),
    errno.EACCES: ("permission denied", "make the directory writable for this user, or choose another with -o"),
    errno.EPERM: ("not permitted", "make the directory writable for this user, or choose another with -o"),
    errno.EIO: ("the disk reports an input/output error", "check the disk, or choose another output directory with -o"),
}
_ONE_FILE = {
    errno.ENAMETOOLONG: "the output's name is too long for this file system",
    errno.EISDIR: "a directory of that name is in the way",
    errno.ENOTDIR: "a file is in the way where a directory is needed",
    errno.EEXIST: "a file is in the way where a directory is needed",
    errno.EILSEQ: "this file system does not take names that are no UTF-8",
}


def output_path(output: Path, relpath: Path, suffix: str) -> Path:
    """Where an item's file of one format goes: appended, since `talk.v2` has no suffix of ours to replace."""
    return output / relpath.with_name(f"{relpath.name}.{suffix}")


def write_outputs(contents: Mapping[Path, str | bytes], scratch: Path) -> None:
    """Write all files of one item: first every one to `scratch`, on the same file system, then all into place.

    Text is UTF-8 with "\\n". Missing directories are made. On any error no temporary file is left. Raises SetupError
    where the output cannot be written at all (disk full, read-only, no permission), ItemError of stage "write" where
    only this file cannot (its name is too long, a directory is in the way).
    """
    waiting: dict[Path, Path] = {}
    target = scratch
    _make_scratch(scratch)
    try:
        for target, content in contents.items():
            waiting[target] = scratch / f"{uuid.uuid4().hex}.tmp"
            _write(waiting[target], content if isinstance(content, bytes) else content.encode("utf-8", "replace"))
        for target, temporary in waiting.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            _move(temporary, target)
        _sync_directories({target.parent for target in contents})
    except OSError as error:
        raise _failure(target, error) from error
    finally:
        for temporary in waiting.values():
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def clear_scratch(scratch: Path) -> None:
    """Remove what a killed run has left behind; only call it while holding the lock on the output root."""
    try:
        for path in scratch.iterdir() if scratch.is_dir() else ():
            path.unlink(missing_ok=True)
    except OSError as error:
        raise _failure(scratch, error) from error


def _make_scratch(scratch: Path) -> None:
    try:
        scratch.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(scratch, error) from error


def _write(path: Path, content: bytes) -> None:
    """A new file, synced to the disk, with the permissions that the user's umask gives (mkstemp would give 0600)."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _move(temporary: Path, target: Path) -> None:
    """Into place in one step; a linked folder on another disk gets its own temporary file beside the target."""
    try:
        temporary.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        beside = target.parent / f".{temporary.name}"
        try:
            _write(beside, temporary.read_bytes())
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)


def _sync_directories(directories: Iterable[Path]) -> None:
    """Make the new names last through a power cut; not every file system can, and then there is nothing to do."""
    for directory in directories:
        with suppress(OSError):
            descriptor = os.open(directory, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _failure(target: Path, error: OSError) -> MlxBatchError:
    one_file = _ONE_FILE.get(error.errno or 0)
    if one_file is not None:
        return ItemError(target, "write", one_file)
    return _unwritable(target, error)


def _unwritable(target: Path, error: OSError) -> SetupError:
    number = error.errno or 0
    if number in FULL:
        return SetupError(f"cannot write {show(target)}: {cause(error)}")
    what = _ONE_FILE.get(number) or error.strerror or str(error)
    what, remedy = _REMEDIES.get(number, (what, "choose another output directory with -o"))
    return SetupError(f"cannot write {show(target)}: {what}; {remedy}")
