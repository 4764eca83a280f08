"""Opening what the user named, without waiting for what is no file."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO, cast

from mlxbatch.errors import ItemError


def open_regular(path: Path, stage: str) -> IO[bytes]:
    """Open for reading; refuses all but regular files with content, and never waits for a pipe's other end.

    Raises ItemError of the given stage.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        causes: dict[type[OSError], str] = {FileNotFoundError: "no such file", PermissionError: "permission denied"}
        cause = causes.get(type(error)) or _kind_of(path) or error.strerror or str(error)
        raise ItemError(path, stage, cause) from error
    status = os.fstat(descriptor)
    refusal = _kind(status.st_mode) or ("empty file (0 bytes)" if status.st_size == 0 else None)
    if refusal is not None:
        os.close(descriptor)
        raise ItemError(path, stage, refusal)
    # Without a buffer, which would not know that a library in C has moved on in the file.
    return cast("IO[bytes]", os.fdopen(descriptor, "rb", buffering=0))


def rewound(file: IO[bytes]) -> int:
    """The file's descriptor, at its first byte: for libraries in C, which then have it to themselves."""
    descriptor = file.fileno()
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _kind_of(path: Path) -> str | None:
    try:
        return _kind(path.stat().st_mode)
    except OSError:
        return None


def _kind(mode: int) -> str | None:
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISDIR(mode):
        return "a directory, not a file"
    names = ((stat.S_ISFIFO, "pipe"), (stat.S_ISSOCK, "socket"), (stat.S_ISCHR, "device"), (stat.S_ISBLK, "device"))
    return next((f"a {name}, not a regular file" for test, name in names if test(mode)), "not a regular file")
