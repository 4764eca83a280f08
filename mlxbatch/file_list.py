"""Lists of inputs, as `find` and the like write them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO

from mlxbatch.errors import UsageError, show


def read_list(source: Path | IO[bytes], *, nul: bool = False) -> list[Path]:
    """The paths of a list: one a line, or separated by NUL bytes as `find -print0` writes them; `-` is standard input.

    With `nul` nothing but NUL separates them; without, a list that holds one is taken for such. Names are bytes,
    decoded as the operating system's own, so that names that are no UTF-8 come through, and they are names whatever
    is in them: never patterns. Blank lines are skipped. Raises UsageError when the list cannot be read.
    """
    content = read_bytes(source, "list")
    if nul or b"\0" in content:
        return [Path(os.fsdecode(name)) for name in content.split(b"\0") if name]
    lines = [line.rstrip(b"\r") for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
    return [Path(os.fsdecode(line)) for line in lines if line.strip()]


def read_bytes(source: Path | IO[bytes], what: str) -> bytes:
    """All of a file that the user named, "-" being standard input; UsageError, which says `what` it is, where not."""
    if not isinstance(source, Path):
        return source.read()
    try:
        return sys.stdin.buffer.read() if source == Path("-") else source.read_bytes()
    except OSError as error:
        raise UsageError(f"the {what} {called(source)} cannot be read: {error.strerror or error}") from error


def called(source: Path) -> str:
    """A list for a message: "-" says nothing to most people."""
    return "standard input" if source == Path("-") else show(source)
