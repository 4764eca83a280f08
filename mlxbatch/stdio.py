"""Standard input, output and error where a scheduler closed them, or where nobody or no disk takes what is written."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from io import FileIO, TextIOWrapper
from typing import Any

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def prepare() -> None:
    """See to the standard streams, before any file is opened."""
    _open_missing()
    # What could not be written may not lie in a buffer: each later flush would fail over it, that of a starting child
    # process too.
    raw = _Lenient(2, "w", closefd=False)
    sys.stderr = TextIOWrapper(raw, sys.stderr.encoding, "backslashreplace", write_through=True)


class _Lenient(FileIO):
    """A stream on which nothing fails: on a full disk, or in a terminal that was closed. Not a word said there is a
    reason to end a run."""

    def write(self, data: Any) -> int:
        with suppress(OSError):
            return super().write(data) or 0
        return len(data)


def _open_missing() -> None:
    """Put the null device where a standard stream is closed, as by `>&-`.

    Without it the next file that is opened, the ledger's or a socket's, gets the stream's number, and what a library
    prints goes into it; and Python's print, told to write to a closed standard error, writes to standard output.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free: all below are open by now.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", errors="backslashreplace", closefd=False))


def settle(code: int) -> int:
    """Flush standard output, and return the exit code. Where that fails Python by itself would end with code 120.

    Standard output carries results, so a run without an error of its own ends with 3 (environment) if they were lost;
    a reader that has gone, as `head` does, wanted no more.
    """
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        _drop_output()
        if not code and not isinstance(error, BrokenPipeError):
            complain(f"error: standard output cannot be written: {getattr(error, 'strerror', None) or error}")
            code = 3
    return code


def complain(text: str) -> None:
    """A line on standard error, whose reader may be gone and whose disk may be full: no reason to end a run."""
    with suppress(OSError, ValueError):
        sys.stderr.write(f"mlxbatch: {text}\n")
        sys.stderr.flush()


def _drop_output() -> None:
    """Let what is left in the buffer go to the null device."""
    with suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)
