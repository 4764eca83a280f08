"""Other people's prints, progress bars and warnings, kept away from the user's terminal."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast


class _Muted:
    """A stream that drops what one thread writes, while it is muted, and passes everything else on."""

    def __init__(self, stream: Any, thread: int) -> None:
        self._stream, self._thread, self.muted = stream, thread, True

    def write(self, text: str) -> int:
        if self.muted and threading.get_ident() == self._thread:
            return len(text)
        return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def hushed() -> Iterator[None]:
    """Nothing that this thread prints, warns of or logs is seen; other threads' words are.

    A logger that is set up in here keeps the stream it found, which passes everything on afterwards.
    """
    thread = threading.get_ident()
    out, err = _Muted(sys.stdout, thread), _Muted(sys.stderr, thread)
    try:
        with redirect_stdout(cast(TextIO, out)), redirect_stderr(cast(TextIO, err)), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        out.muted = err.muted = False
