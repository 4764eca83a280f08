"""From what the user named to a sorted list of items, each with its output path; refuses outputs that would collide."""

from __future__ import annotations

import hashlib
import os
import stat
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mlxbatch.errors import ItemError, UsageError, show
from mlxbatch.filters import REASONS, Filters
from mlxbatch.manifest import Row
from mlxbatch.patterns import is_pattern, pattern, split
from mlxbatch.types import Item, Task, Wishes
from mlxbatch.walk import MEDIA_SUFFIXES, Sighting, Tree, Walk

_NO_WISHES = Wishes()


@dataclass(frozen=True, slots=True)
class Found:
    """The items in order of output path, how many files were not taken by reason, and what could not be had."""

    items: tuple[Item, ...]
    not_taken: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[ItemError, ...] = ()

    def by_reason(self) -> dict[str, int]:
        """`not_taken` with every reason, 0 included: for programs."""
        return {reason: self.not_taken.get(reason, 0) for reason in REASONS}


def discover(
    inputs: Sequence[Path],
    *,
    listed: Sequence[Path] = (),
    rows: Sequence[Row] = (),
    root: Path | None = None,
    filters: Filters | None = None,
    output: Path,
    task: Task = "transcribe",
    also: Collection[str] = (),
) -> Found:
    """Every input file once, as items with distinct output paths.

    `inputs` are files, directories (searched to the bottom), and patterns such as `calls/**/*.wav` where no file is
    called that. `listed` comes from a list of files, `rows` from a manifest, whose wishes go to the items.

    Output paths are relative to the directory a file was found in, for a pattern the one before its first wildcard;
    with several inputs each directory's own name leads its tree. A file named by itself keeps its own name, one that a
    row alone names the path that is written there. `root` keeps all paths relative to it.
    `also` are suffixes (no dot) of further recordings.

    Raises UsageError for a path that does not exist, a pattern that nothing matches, an input outside `root`, or two
    files whose outputs would be one path. A row's file that is not there is a problem, and the others are taken.
    """
    media = MEDIA_SUFFIXES.union(f".{suffix}" for suffix in also)
    walk = Walk(_identity(output), filters or Filters(), media)
    patterns = [path for path in inputs if _expands(path)]
    names = _unique(path for path in inputs if path not in patterns)
    given = _unique([*names, *listed])
    directories = {path for path in given if _is_directory(path)}
    trees = [_pattern_tree(path, root) for path in patterns]
    several = len({_absolute(path) for path in (*names, *directories, *(Path(tree.path) for tree in trees))}) > 1
    walk.trees.extend(replace(tree, place=_place(Path(tree.path), root, leads=several)) for tree in trees)
    for path in given:
        place = _place(path, root, leads=several or path not in directories)
        if path in directories:
            walk.trees.append(Tree(str(path), place, whole_place=root is not None))
        else:
            walk.name(str(path), _absolute(path), place)
    walk.run()
    _check_matches(walk, trees)
    _name_rows(walk, rows, root)
    wishes = {row.absolute: row.wishes for row in rows}
    return Found(_items(walk, task, wishes), dict(walk.not_taken()), tuple(walk.problems))


def item_id(source: Path | str, task: Task) -> str:
    """32 hex digits that stay the same as long as the task and the absolute path of the source do."""
    absolute = os.fsencode(os.path.abspath(source))  # noqa: PTH100 (Path.absolute keeps "..")
    return hashlib.blake2b(task.encode() + b"\0" + absolute, digest_size=16).hexdigest()


# --- what the user named ---------------------------------------------------------------------------------------------


def _expands(path: Path) -> bool:
    """Whether it is a pattern; a file may be called like one."""
    return is_pattern(path) and not os.path.lexists(path)


def _pattern_tree(path: Path, root: Path | None) -> Tree:
    folder, rest = split(path)
    if not _is_directory(folder):
        raise UsageError(f"{show(path)}: {show(folder)} is a file, not a folder")
    return Tree(str(folder), "", pattern(rest, from_top=True), whole_place=root is not None)


def _check_matches(walk: Walk, trees: Sequence[Tree]) -> None:
    """UsageError for a pattern that nothing matched, unless something could not be looked at."""
    for tree in trees:
        unseen = any(problem.path.is_relative_to(tree.path) for problem in walk.problems)
        if tree.pattern and tree.pattern not in walk.matched and not unseen:
            raise UsageError(f"nothing matches {show(Path(tree.path, tree.pattern.text))}")


def _name_rows(walk: Walk, rows: Sequence[Row], root: Path | None) -> None:
    """After all others: a file that was found keeps the place it was found in."""
    found = {sighting.absolute for sighting in walk.sightings}
    for row in rows:
        if row.absolute in found or walk.left_out.get(row.absolute, "ignored") != "ignored":
            continue
        try:
            cause = "a folder, and a row names a file" if _is_directory(row.source) else None
        except UsageError:
            cause = "no such file, or it cannot be looked at"
        if cause:
            cause = f"{cause} (line {row.line} of the manifest)"
            walk.problems.append(ItemError(Path(row.source), "discover", cause))
        else:
            walk.name(row.source, row.absolute, row.place if root is None else _place(row.source, root, leads=True))


# --- items -----------------------------------------------------------------------------------------------------------


def _items(walk: Walk, task: Task, wishes: Mapping[str, Wishes]) -> tuple[Item, ...]:
    first = {sighting.absolute: sighting for sighting in reversed(walk.sightings)}
    sightings = [first[absolute] for absolute in sorted(first)]
    places = _distinct_places(sightings, walk.media)
    items = [
        Item(
            item_id(sighting.absolute, task),
            Path(sighting.source),
            Path(place),
            task,
            wishes.get(sighting.absolute, _NO_WISHES),
        )
        for sighting, place in zip(sightings, places, strict=True)
    ]
    return tuple(sorted(items, key=lambda item: os.fsencode(item.relpath)))


def _distinct_places(sightings: Sequence[Sighting], media: frozenset[str]) -> list[str]:
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


def _collision(first: Sighting, second: Sighting) -> UsageError:
    return UsageError(
        f"{show(first.source)} and {show(second.source)} would be written to the same output {show(first.place)}; "
        "rename one, run them into different outputs, or keep their paths apart with --root"
    )


def _without_suffix(place: str, media: frozenset[str]) -> str:
    """Only a media suffix is no part of the name: `talk.2024` stays whole."""
    stem, suffix = os.path.splitext(place)  # noqa: PTH122
    return stem if suffix.lower() in media else place


# --- paths -----------------------------------------------------------------------------------------------------------


def _unique(paths: Iterable[Path]) -> list[Path]:
    return list({_absolute(path): path for path in reversed(list(paths))}.values())[::-1]


def _absolute(path: Path | str) -> str:
    try:
        return os.path.abspath(path)  # noqa: PTH100
    except ValueError as error:
        raise UsageError(f"{show(path)}: {error}") from error


def _is_directory(path: Path | str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116
    except FileNotFoundError as error:
        raise UsageError(f"no such file or directory: {show(path)}") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{show(path)}: {getattr(error, 'strerror', None) or error}") from error


def _place(path: Path | str, root: Path | None, *, leads: bool) -> str:
    """Where a given input stands below the output root; empty for a lone directory, whose content stands there."""
    if root is None:
        return os.path.basename(_absolute(path)) if leads else ""  # noqa: PTH119
    place = _below(_absolute(path), _absolute(root))
    if place is None:
        place = _below(os.path.realpath(path), os.path.realpath(root))
    if place is None:
        raise UsageError(f"{show(path)} is not below --root {show(root)}")
    return place


def _below(path: str, folder: str) -> str | None:
    """The path from a folder on, "" for the folder itself; None where it is not below it."""
    if path == folder:
        return ""
    prefix = f"{folder.rstrip('/')}/"
    return path[len(prefix) :] if path.startswith(prefix) else None


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
