"""One process fetches a file or a model at a time; the others are told so, and wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

Say = Callable[[str], None]
"""What tells the user what is being done, a line at a time."""


@contextmanager
def only_one(lock_file: Path, what: str, say: Say) -> Iterator[None]:
    """Hold the lock; where another process has it, `say` that `what` is being fetched, and wait."""
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(lock_file)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say(f"{what}: another process is fetching it, waiting")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
