"""Standard error as far as it takes anything: what a run says there is never a reason to end it."""

from __future__ import annotations

import io
import sys
from contextlib import suppress
from typing import TextIO, cast


def standard_error() -> TextIO:
    """`sys.stderr`, on which nothing fails: on a full disk, in a terminal that was closed, or where it is None.

    Results go to standard output, and there an error is one.
    """
    return cast(TextIO, _Lenient(sys.stderr))


class _Lenient(io.TextIOBase):
    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self._stream, "encoding", None) or "utf-8"

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        if self._stream is None:
            raise OSError("no standard error")
        return self._stream.fileno()

    def write(self, text: str) -> int:
        if self._stream is not None:
            with suppress(OSError, ValueError):
                self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        if self._stream is not None:
            with suppress(OSError, ValueError):
                self._stream.flush()
