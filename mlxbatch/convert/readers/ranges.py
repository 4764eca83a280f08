"""Ranges of bytes of a file that stays open, so that a large one is never held whole nor mapped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlxbatch.errors import SetupError, show


class Ranges:
    """An open file; whoever renames another over it changes nothing here, and who writes into it is found out."""

    def __init__(self, path: Path) -> None:
        """Raises SetupError where it cannot be opened."""
        try:
            self._file = path.open("rb", buffering=0)
        except OSError as error:
            raise SetupError(f"{show(path)}: {error.strerror or error}") from error
        self.path, self._state = path, self._now()
        self.size = self._state[0]

    def close(self) -> None:
        self._file.close()

    def read(self, at: int, size: int) -> bytes:
        """Exactly so many bytes. SetupError where the file has changed since it was opened, or cannot be read."""
        try:
            parts = list(self._parts(at, size))
        except OSError as error:
            raise SetupError(f"{show(self.path)}: {error.strerror or error}") from error
        if self._now() != self._state or sum(map(len, parts)) != size:
            raise SetupError(f"{show(self.path)}: the file changed while it was read: run it again")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _parts(self, at: int, size: int) -> Iterator[bytes]:
        while size and (part := os.pread(self._file.fileno(), size, at)):  # a system gives at most 2 GB at a time
            yield part
            at, size = at + len(part), size - len(part)

    def _now(self) -> tuple[int, int]:
        state = os.fstat(self._file.fileno())
        return state.st_size, state.st_mtime_ns


@contextmanager
def at_fault(path: Path, remedy: str) -> Iterator[None]:
    """A reader's ValueError, which says what is wrong in a file, as a SetupError with the file and what to do."""
    try:
        yield
    except ValueError as error:
        raise SetupError(f"{show(path)}: {error}; {remedy}") from error
