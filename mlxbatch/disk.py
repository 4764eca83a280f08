"""Room on the output's disk: what a run will need, whether that is there before it begins, and while it runs."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlxbatch.errors import SetupError, show
from mlxbatch.words import size

# What the system says where there is no room, and what that is.
FULL = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the disk quota is used up"}
# Seconds between two looks at the disk while a run writes.
EVERY = 1.0

# What a run writes, in bytes per second of audio: twice what the densest of 230 recordings of 5 s and more took with
# Whisper base (telephone prompts, read books, calls, eight languages: 31, 45, 45 and 198). On average they took 14, 23,
# 23 and 112, and the ledger and the run's log 200 with what they take per file.
_PER_SECOND = {"txt": 62, "srt": 90, "vtt": 90, "json": 396}
_STATE_PER_SECOND = 400
# A file takes whole blocks, and a row and its lines in the log something even for silence.
_BLOCK = 4096
# SQLite's write-ahead log grows to 4 MB before it is written back, whatever is in it; and the folders.
_STATE = 8 * 10**6


def cause(error: OSError) -> str:
    """What the system says, and where the disk is full what to do."""
    if error.errno in FULL:
        return f"{FULL[error.errno]}; free some space and run again"
    return error.strerror or str(error)


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes and files: what is needed, or what is free. `files` is None where a file system sets them no bound."""

    bytes: int = 0
    files: int | None = 0


NOTHING = Room()


def forecast(seconds: Sequence[float], formats: Iterable[str]) -> Room:
    """Room for the results of recordings of these lengths, ledger and log included: a generous guess."""
    names = list(formats)
    per_second = _STATE_PER_SECOND + sum(_PER_SECOND.get(name, _PER_SECOND["json"]) for name in names)
    per_file = _BLOCK * (1 + len(names))
    # Beside the outputs: temporary files, folders, the run's log.
    return Room(_STATE + int(per_second * sum(seconds)) + per_file * len(seconds), len(names) * len(seconds) + 16)


def free_room(path: Path) -> Room:
    """What this user may still write on the file system of an existing path. Raises OSError where it does not tell.

    A file system that counts no files (btrfs says 0 of 0) sets them no bound, nor does APFS, whose counts do not fit
    statvfs(3) on macOS.
    """
    found = os.statvfs(path)
    bounded = found.f_files and sys.platform != "darwin"
    return Room(found.f_bavail * found.f_frsize, found.f_favail if bounded else None)


class Space:
    """The disk below one output root, on which `min_free` bytes are to stay free. `clock` gives seconds."""

    def __init__(
        self,
        output_root: Path,
        min_free: int = 0,
        *,
        clock: Callable[[], float] = time.monotonic,
        free: Callable[[Path], Room] = free_room,
    ) -> None:
        self._root, self._min_free = output_root, min_free
        self._clock, self._free = clock, free
        self._looked: float | None = None

    def require(self, needed: Room = NOTHING) -> None:
        """SetupError where there is no room for `needed` beside what is to stay free; the root must be there."""
        try:
            free = self._free(self._root)
        except OSError:
            return  # a disk that does not tell is no reason not to try: a write that fails is told
        wanted = needed.bytes + self._min_free
        if free.bytes < wanted:
            raise SetupError(
                f"not enough room on the disk of {show(self._root)}: {size(free.bytes)} free, {size(wanted)} needed "
                f"({size(needed.bytes)} for results, {size(self._min_free)} to stay free by state.min_free); "
                "free some space and run again"
            )
        if free.files is not None and free.files < max(needed.files or 0, 1):
            raise SetupError(
                f"not enough room on the disk of {show(self._root)}: it takes {free.files} more files (inodes), "
                f"{max(needed.files or 0, 1)} needed; remove some files and run again"
            )

    def watch(self) -> None:
        """`require` that what is to stay free still is, once a second at most: to be called between two writes."""
        now = self._clock()
        if self._looked is None or now - self._looked >= EVERY:
            self._looked = now
            self.require()
