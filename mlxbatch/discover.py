"""From what the user named to a sorted list of items, each with its output path; refuses outputs that would collide."""

from __future__ import annotations

import hashlib
import os
import sys
import unicodedata
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from mlxbatch.errors import ItemError, UsageError, show
from mlxbatch.headerless import DEFAULTS
from mlxbatch.types import Item, Task

# What libsndfile or ffmpeg can hold sound in. A directory's other files are ignored and counted; a file that is named
# by itself is always taken, whatever it is called.
_SUFFIXES = (
    "wav wave bwf flac ogg oga opus spx mp3 mp2 mpga mpeg aif aiff aifc au snd caf w64 rf64 gsm sph nist voc vox "
    "ircam svx 8svx avr pvf htk wve m4a m4b m4r aac mp4 m4v mov mkv mka webm wma wmv asf avi mpg m2ts flv amr awb "
    "3gp 3g2 ac3 eac3 dts ape wv tta tak mpc shn dsf qcp ra rm dss mxf f4v ogv vob mts"
)
MEDIA_SUFFIXES = frozenset(f".{suffix}" for suffix in (*_SUFFIXES.split(), *DEFAULTS))


@dataclass(frozen=True, slots=True)
class Found:
    """The items in order of output path, how many other files were passed over, and what could not be listed."""

    items: tuple[Item, ...]
    ignored: int = 0
    problems: tuple[ItemError, ...] = ()


@dataclass(frozen=True, slots=True)
class _Sighting:
    """One file: the path to open, the absolute path that identifies it, and its place below the output root."""

    source: str
    absolute: str
    place: str


def discover(
    inputs: Sequence[Path],
    *,
    listed: Sequence[Path] = (),
    root: Path | None = None,
    output: Path,
    task: Task = "transcribe",
    also: Collection[str] = (),
) -> Found:
    """Every input file once, as items with distinct output paths.

    `inputs` are files and directories (searched to the bottom), `listed` comes from a list of files. Output paths are
    relative to the directory a file was found in; with several inputs each directory's own name leads its tree; a file
    named by itself keeps its own name; `root` keeps all paths relative to it. `also` are suffixes (no dot) of further
    recordings. Raises UsageError for a path that does
    not exist, an input outside `root`, or two files whose outputs would be one path.
    """
    media = MEDIA_SUFFIXES.union(f".{suffix}" for suffix in also)
    walk = _Walk(_identity(output), media)
    given = _unique([*inputs, *listed])
    directories = {path for path in given if _is_directory(path)}
    several = len({_absolute(path) for path in (*inputs, *directories)}) > 1
    for path in given:
        place = _place(path, root, leads=several or path not in directories)
        if path in directories:
            walk.trees.append((str(path), place))
        else:
            walk.sightings.append(_Sighting(str(path), _absolute(path), place))
    walk.run()
    return Found(_items(walk.sightings, task, media), walk.ignored, tuple(walk.problems))


def read_list(source: Path | IO[bytes]) -> list[Path]:
    """The paths of a list: one a line, or separated by NUL bytes as `find -print0` writes them; `-` is standard input.

    Names are bytes, decoded as the operating system's own, so that names that are no UTF-8 come through. Blank lines
    are skipped. Raises UsageError when the list cannot be read.
    """
    content = _read_bytes(source).removeprefix(b"\xef\xbb\xbf")
    lines = content.split(b"\0") if b"\0" in content else [line.rstrip(b"\r") for line in content.split(b"\n")]
    return [Path(os.fsdecode(line)) for line in lines if line.strip()]


def item_id(source: Path | str, task: Task) -> str:
    """32 hex digits that stay the same as long as the task and the absolute path of the source do."""
    absolute = os.fsencode(os.path.abspath(source))  # noqa: PTH100 (Path.absolute keeps "..")
    return hashlib.blake2b(task.encode() + b"\0" + absolute, digest_size=16).hexdigest()


@dataclass(slots=True)
class _Walk:
    """The search through directories. Each directory is entered once, by device and inode: links cannot loop."""

    skip: tuple[int, int] | None
    media: frozenset[str]
    trees: deque[tuple[str, str]] = field(default_factory=deque)
    links: list[tuple[str, str]] = field(default_factory=list)
    seen: set[tuple[int, int]] = field(default_factory=set)
    sightings: list[_Sighting] = field(default_factory=list)
    problems: list[ItemError] = field(default_factory=list)
    ignored: int = 0

    def run(self) -> None:
        """All real directories first, then the linked ones: a file is named by its real place where it has one."""
        while self.trees:
            self._tree(*self.trees.popleft(), named=True)
        while self.links:
            links, self.links = sorted(self.links), []
            for path, place in links:
                self._tree(path, place)

    def _tree(self, path: str, place: str, *, named: bool = False) -> None:
        """One tree, depth first. A directory that the user named is searched even if it is the output root."""
        stack = [(path, place)]
        while stack:
            path, place = stack.pop()
            try:
                if not self._enter(path, named):
                    continue
                with os.scandir(path) as scan:
                    entries = sorted(scan, key=lambda entry: entry.name)
            except OSError as error:
                self.problems.append(_unlistable(path, error))
                continue
            named = False
            below = self._folder(entries, os.path.abspath(path), place)  # noqa: PTH100
            stack.extend(reversed(below))

    def _enter(self, path: str, named: bool) -> bool:
        status = os.stat(path)  # noqa: PTH116 (strings throughout: 100,000 Path objects cost seconds)
        identity = (status.st_dev, status.st_ino)
        if identity in self.seen or (identity == self.skip and not named):
            return False
        self.seen.add(identity)
        return True

    def _folder(self, entries: Iterable[os.DirEntry[str]], absolute: str, place: str) -> list[tuple[str, str]]:
        """Take the files of one directory; return its real subdirectories."""
        below: list[tuple[str, str]] = []
        for entry in entries:
            name = entry.name
            if name.startswith("."):
                continue
            try:
                is_directory = entry.is_dir()
            except OSError as error:
                self.problems.append(_unlistable(entry.path, error))
                continue
            spot = f"{place}/{name}" if place else name
            if is_directory:
                (self.links if entry.is_symlink() else below).append((entry.path, spot))
            elif os.path.splitext(name)[1].lower() in self.media:  # noqa: PTH122
                # A link to nothing is taken too: it then fails by name instead of vanishing.
                self.sightings.append(_Sighting(entry.path, f"{absolute.rstrip('/')}/{name}", spot))
            else:
                self.ignored += 1
        return below


def _items(sightings: Sequence[_Sighting], task: Task, media: frozenset[str]) -> tuple[Item, ...]:
    first = {sighting.absolute: sighting for sighting in reversed(sightings)}
    sightings = [first[absolute] for absolute in sorted(first)]
    places = _distinct_places(sightings, media)
    items = [
        Item(item_id(sighting.absolute, task), Path(sighting.source), Path(place), task)
        for sighting, place in zip(sightings, places, strict=True)
    ]
    return tuple(sorted(items, key=lambda item: os.fsencode(item.relpath)))


def _distinct_places(sightings: Sequence[_Sighting], media: frozenset[str]) -> list[str]:
    """Output places without suffix; where two would be one, both keep their extension.

    An extension that is kept may meet a further name (`a.wav`, `a.mp3`, `a.wav.wav`), so until nothing changes.
    """
    places = [_without_suffix(sighting.place, media) for sighting in sightings]
    while clashes := [group for group in _groups(places) if any(places[i] != sightings[i].place for i in group)]:
        for i in (i for group in clashes for i in group):
            places[i] = sightings[i].place
    for group in _groups(places):
        raise _collision(*(sightings[i] for i in group[:2]))
    return places


def _groups(places: Sequence[str]) -> Iterator[list[int]]:
    """Indices of places that would be one path on some file system: compared without case, in one Unicode form."""
    groups = defaultdict(list)
    for index, place in enumerate(places):
        groups[unicodedata.normalize("NFC", place.casefold())].append(index)
    return (group for group in groups.values() if len(group) > 1)


def _collision(first: _Sighting, second: _Sighting) -> UsageError:
    return UsageError(
        f"{show(first.source)} and {show(second.source)} would be written to the same output {show(first.place)}; "
        "rename one, run them into different outputs, or keep their paths apart with --root"
    )


def _without_suffix(place: str, media: frozenset[str]) -> str:
    """Only a media suffix is no part of the name: `talk.2024` stays whole."""
    stem, suffix = os.path.splitext(place)  # noqa: PTH122
    return stem if suffix.lower() in media else place


def _unique(paths: Iterable[Path]) -> list[Path]:
    return list({_absolute(path): path for path in reversed(list(paths))}.values())[::-1]


def _absolute(path: Path) -> str:
    try:
        return os.path.abspath(path)  # noqa: PTH100
    except ValueError as error:
        raise UsageError(f"{show(path)}: {error}") from error


def _is_directory(path: Path) -> bool:
    try:
        path.stat()
    except FileNotFoundError as error:
        raise UsageError(f"no such file or directory: {show(path)}") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{show(path)}: {getattr(error, 'strerror', None) or error}") from error
    return path.is_dir()


def _place(path: Path, root: Path | None, *, leads: bool) -> str:
    """Where a given input stands below the output root; empty for a lone directory, whose content stands there."""
    if root is None:
        return os.path.basename(_absolute(path)) if leads else ""  # noqa: PTH119
    for place, base in ((_absolute(path), _absolute(root)), (os.path.realpath(path), os.path.realpath(root))):
        if Path(place).is_relative_to(base):
            relative = str(Path(place).relative_to(base))
            return "" if relative == "." else relative
    raise UsageError(f"{show(path)} is not below --root {show(root)}")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _unlistable(path: str, error: OSError) -> ItemError:
    return ItemError(Path(path), "discover", f"this folder could not be read: {error.strerror or error}")


def _read_bytes(source: Path | IO[bytes]) -> bytes:
    if not isinstance(source, Path):
        return source.read()
    if source == Path("-"):
        return sys.stdin.buffer.read()
    try:
        return source.read_bytes()
    except OSError as error:
        raise UsageError(f"the list {show(source)} cannot be read: {error.strerror or error}") from error
