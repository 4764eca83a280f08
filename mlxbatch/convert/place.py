"""How a converted model comes to its directory: made in DIR.partial, synced to the disk, moved there by a rename.

DIR.partial also holds the lock on DIR, so that of two conversions to one place the second is refused. While DIR is
being replaced the old model lies in DIR.partial/old; a run that was killed at that moment is mended by the next one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mlxbatch.disk import cause, free_room
from mlxbatch.errors import SetupError, UsageError, show
from mlxbatch.lock import output_lock
from mlxbatch.machine import read_machine
from mlxbatch.models.weights import weight_files
from mlxbatch.signals import held_signals
from mlxbatch.state import FOLDER
from mlxbatch.words import size

# Memory that Python, MLX and the pieces of a weight take beside the largest weight.
WORKING = 300 * 10**6
# Bytes of room beyond what is written: folders, the last blocks of files.
_SPARE = 10**6


@dataclass(frozen=True, slots=True)
class Place:
    """A model's directory, and where it is made."""

    target: Path

    @property
    def partial(self) -> Path:
        return self.target.with_name(f"{self.target.name}.partial")

    @property
    def made(self) -> Path:
        """The directory in which the model is to be made."""
        return self.partial / "model"

    @property
    def original(self) -> Path:
        """Where the original may lie, in a form that can be loaded, for as long as the two are compared."""
        return self.partial / "original"

    @property
    def old(self) -> Path:
        return self.partial / "old"

    def land(self) -> None:
        """Move the model that was made to its directory, which it replaces. SetupError where the disk does not let."""
        with writing(self.target):
            for path in (*self.made.rglob("*"), self.made):
                _sync(path)
            with held_signals():
                self._swap()
            _sync(self.target.parent)

    def _swap(self) -> None:
        if self.target.exists():
            self.target.rename(self.old)
        try:
            self.made.rename(self.target)
        except OSError:
            if self.old.exists():
                self.old.rename(self.target)
            raise

    def clear(self) -> None:
        """Remove what a killed run left, but what it had taken away: that goes back."""
        if self.old.exists() and not self.target.exists():
            self.old.rename(self.target)
        for folder in (self.made, self.original, self.old):
            shutil.rmtree(folder, ignore_errors=True)


def place_for(directory: Path) -> Place:
    """The place of a directory as the user named it; UsageError for one that has no name of its own, such as "/"."""
    target = Path(os.path.abspath(directory.expanduser()))  # noqa: PTH100 (a link stays a link, to be refused)
    if not target.name:
        raise UsageError(f"{show(directory)}: not a directory that a model could have for itself")
    return Place(target)


def check(place: Place, source: Path | None, *, force: bool) -> None:
    """UsageError where the directory may not be made or replaced, `source` being the one that is read, if it is local.

    Nothing is written. Whether there is room and permission is seen when it is.
    """
    target = place.target
    if target.is_symlink():
        raise UsageError(f"{show(target)}: a symbolic link; name the directory that it points to")
    if source is not None and source.exists() and target.exists():
        real, own = source.resolve(), target.resolve()
        if own == real or own in real.parents:
            raise UsageError(f"{show(target)}: is what is to be converted, or holds it; name another directory with -o")
    if target.exists() and not target.is_dir():
        raise UsageError(f"{show(target)}: a file of that name is there; name another directory with -o")
    if target.is_dir() and any(target.iterdir()):
        _check_replaced(target, force=force)
    if place.partial.is_symlink() or (place.partial.is_dir() and _foreign(place)):
        raise UsageError(f"{show(place.partial)}: holds what no conversion has left there; move it away")


def _check_replaced(target: Path, *, force: bool) -> None:
    if not _holds_a_model(target):
        raise UsageError(f"{show(target)}: holds something, and no model: it is not replaced; name another with -o")
    if not force:
        raise UsageError(f"{show(target)}: is there already; --force replaces it")


def _holds_a_model(directory: Path) -> bool:
    try:
        return bool(weight_files(directory)) and (directory / "config.json").is_file()
    except SetupError:
        return False


def _foreign(place: Place) -> set[str]:
    ours = {FOLDER, *(path.name for path in (place.made, place.original, place.old))}
    return {path.name for path in place.partial.iterdir()} - ours


@contextmanager
def placing(place: Place, source: Path | None, *, force: bool, break_lock: bool = False) -> Iterator[Place]:
    """Have the place to ourselves: what a killed run left is gone, and at the end all but a model that has landed.

    UsageError as of `check`; LockedError where another conversion works on it; SetupError where it cannot be written.
    """
    check(place, source, force=force)
    made = _make_parents(place.target)
    try:
        with output_lock(place.partial, break_lock):
            try:
                with writing(place.target):
                    place.clear()
                check(place, source, force=force)  # now that nobody else can change it
                yield place
            finally:
                # The lock lies in it: let go of before it is gone, it could be had by another whose work would go.
                place.clear()
                shutil.rmtree(place.partial, ignore_errors=True)
    finally:
        for folder in made:
            with suppress(OSError):  # it holds the model by now
                folder.rmdir()


def _make_parents(target: Path) -> list[Path]:
    """Make the folders above; those that were not there, innermost first."""
    missing = [folder for folder in target.parents if not folder.exists()]
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    return missing


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """An error of the disk as one line that names the directory."""
    try:
        yield
    except OSError as error:
        raise SetupError(f"cannot write {show(target)}: {cause(error)}") from error


def _sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk; not every file system can sync a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        if not path.is_dir():
            raise
    finally:
        os.close(descriptor)


# ---- room


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes that a conversion takes of the disk and of memory, and what there is; None where nobody tells."""

    disk: int
    disk_free: int | None
    memory: int
    memory_free: int

    def __str__(self) -> str:
        free = "" if self.disk_free is None else f" ({size(self.disk_free)} free)"
        memory = f"{size(self.memory)} of memory ({size(self.memory_free)} free)"
        return f"needs {size(self.disk)} on the disk{free} and {memory}"

    def require(self) -> None:
        """SetupError where there is not enough of either."""
        if self.disk_free is not None and self.disk_free < self.disk:
            raise SetupError(f"not enough room: the conversion {self}; free some space and run again")
        if self.memory_free < self.memory:
            raise SetupError(f"not enough memory: the conversion {self}; end other programs and run again")


def need(place: Place, written: int, largest: int) -> Need:
    """What it takes to write so many bytes beside the place, the largest weight having so many."""
    free: int | None = None
    with suppress(OSError):
        free = free_room(next(folder for folder in place.target.parents if folder.exists())).bytes
    return Need(written + _SPARE, free, largest + WORKING, read_machine().available)
