"""Room, and whether a run may read and write where it has to."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mlxbatch.doctor.finding import Case, Finding, Level, nearest_there, settings_if_right
from mlxbatch.errors import show
from mlxbatch.models.cache import ENVIRONMENT, cache_root
from mlxbatch.state import file_system, on_network
from mlxbatch.words import size

PRIVACY = (
    "macOS keeps it from programs: System Settings > Privacy & Security > Full Disk Access, "
    "for the program that runs mlxbatch (for cron: /usr/sbin/cron; by hand: your terminal)"
)


# ---- room


def check_space(case: Case) -> Iterator[Finding]:
    if case.output is not None:
        yield from _space("output", case.output, _least(case), stops=True)
    yield from _space("model cache", cache_root(), _least(case), stops=False)
    yield from _space("temporary files", Path(tempfile.gettempdir()), _least(case), stops=False)


def _least(case: Case) -> int:
    """Bytes that the profile keeps free."""
    from mlxbatch.budget import parse_bytes

    loaded = settings_if_right(case)
    return parse_bytes(loaded.profile.state.min_free) if loaded else 0


def _space(role: str, path: Path, least: int, *, stops: bool) -> Iterator[Finding]:
    """One place; `stops` where a run ends for want of room there."""
    place = nearest_there(path)
    usage = shutil.disk_usage(place)
    what = f"{role}: {size(usage.free)} free of {size(usage.total)} at {show(path)} ({file_system(place) or 'unknown'})"
    if usage.free < least:
        level: Level = "problem" if stops else "warning"
        yield Finding(level, "disk", f"{what}, less than min_free = {size(least)}", f"free some space at {show(place)}")
    elif not os.statvfs(place).f_favail and os.statvfs(place).f_files:
        what = f"{role}: no file can be made at {show(place)}: it is out of inodes"
        yield Finding("problem", "disk", what, "remove files there")
    else:
        yield Finding("ok", "disk", what)
    if on_network(place):
        what = f"{role}: {show(place)} is on a network mount, whose locks other hosts may not see"
        yield Finding("note", "disk", what, "let one host at a time work on it")


# ---- permissions


def check_permissions(case: Case) -> Iterator[Finding]:
    if case.output is not None:
        yield writable("output", case.output, "name another with -o, or change its owner or mode")
        yield from _listed([nearest_there(case.output)])
    cache = writable("model cache", cache_root(), f"set {ENVIRONMENT} to a directory that can be written")
    # One that can be read is enough once the models are in it.
    yield cache if cache.level == "ok" else Finding("warning", cache.topic, cache.what, cache.remedy)
    yield from _listed([Path.cwd()])
    for place in case.inputs:
        yield readable(place)


def _listed(places: list[Path]) -> Iterator[Finding]:
    """Only what is denied: the output root and the working directory are no inputs."""
    yield from (found for place in places if (found := readable(place)).level != "ok")


def writable(role: str, path: Path, remedy: str) -> Finding:
    """Whether files can be made in a directory, or the directory itself; what is made to see it is gone at once."""
    place = nearest_there(path)
    try:
        if place == path.absolute():
            with tempfile.TemporaryFile(dir=place):
                pass
        elif not place.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        elif not os.access(place, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        return _denied(f"{role}: cannot write to {show(path)}", place, error, remedy)
    made = "" if place == path.absolute() else ", which would be made"
    return Finding("ok", "permissions", f"{role}: {show(path)} can be written{made}")


def readable(place: Path) -> Finding:
    """Whether a directory can be listed, and the first file of it read."""
    try:
        first = _first_file(place)
        if first is not None:
            with first.open("rb") as file:
                file.read(1)
    except OSError as error:
        gone = isinstance(error, FileNotFoundError | NotADirectoryError)
        remedy = "name a directory that is there" if gone else "change its owner or mode, or run as one who may"
        return _denied(f"cannot read {show(place)}", place, error, remedy)
    return Finding("ok", "permissions", f"{show(place)} can be read")


def _first_file(place: Path) -> Path | None:
    if place.is_file():
        return place
    with os.scandir(place) as entries:
        return next((Path(entry.path) for entry in entries if entry.is_file()), None)


def _denied(what: str, place: Path, error: OSError, remedy: str) -> Finding:
    """macOS's privacy protection says EPERM, "Operation not permitted", where modes and owners say EACCES."""
    private = sys.platform == "darwin" and error.errno == errno.EPERM
    cause = error.strerror or str(error)
    where = "" if show(place) in what else f" ({show(place)})"
    return Finding("problem", "permissions", f"{what}: {cause}{where}", PRIVACY if private else remedy)
