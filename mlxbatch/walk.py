"""The search through directories for recordings."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from mlxbatch.errors import ItemError
from mlxbatch.filters import Filters, NotTaken
from mlxbatch.headerless import DEFAULTS
from mlxbatch.patterns import Pattern

# What libsndfile or ffmpeg can hold sound in. A directory's other files are ignored and counted; a file that is named
# by itself is always taken, whatever it is called.
_SUFFIXES = (
    "wav wave bwf flac ogg oga opus spx mp3 mp2 mpga mpeg aif aiff aifc au snd caf w64 rf64 gsm sph nist voc vox "
    "ircam svx 8svx avr pvf htk wve m4a m4b m4r aac mp4 m4v mov mkv mka webm wma wmv asf avi mpg m2ts flv amr awb "
    "3gp 3g2 ac3 eac3 dts ape wv tta tak mpc shn dsf qcp ra rm dss mxf f4v ogv vob mts"
)
MEDIA_SUFFIXES = frozenset(f".{suffix}" for suffix in (*_SUFFIXES.split(), *DEFAULTS))


@dataclass(frozen=True, slots=True)
class Sighting:
    """One file: the path to open, the absolute path that identifies it, and its place below the output root."""

    source: str
    absolute: str
    place: str


@dataclass(frozen=True, slots=True)
class Tree:
    """A directory to be searched, whose own place below the output root is `place`.

    With a `pattern` only what matches it, below this directory, is looked at. Filters see paths below the directory, or
    below the output root where `whole_place`.
    """

    path: str
    place: str
    pattern: Pattern | None = None
    whole_place: bool = False

    def below(self, spot: str) -> str:
        """The path below the directory of what stands at a place below the output root."""
        return spot[len(self.place) + 1 :] if self.place else spot

    def filtered(self, spot: str) -> str:
        return spot if self.whole_place else self.below(spot)


@dataclass(slots=True)
class Walk:
    """The search. Each directory is entered once for a tree's pattern, by device and inode: links cannot loop.

    `left_out` has, by absolute path, what was not taken and why; another input may have it taken all the same.
    `matched` are the patterns for which there was anything at all.
    """

    skip: tuple[int, int] | None
    filters: Filters
    media: frozenset[str]
    trees: deque[Tree] = field(default_factory=deque)
    sightings: list[Sighting] = field(default_factory=list)
    problems: list[ItemError] = field(default_factory=list)
    left_out: dict[str, NotTaken] = field(default_factory=dict)
    matched: set[Pattern] = field(default_factory=set)
    _links: list[tuple[str, str, Tree]] = field(default_factory=list)
    _seen: set[tuple[int, int, str | None]] = field(default_factory=set)

    def name(self, path: str, absolute: str, place: str) -> None:
        """Take a file that was named by itself; filters see its place below the output root."""
        self._take(Sighting(path, absolute, place), place, lambda: os.stat(path))  # noqa: PTH116

    def not_taken(self) -> Counter[str]:
        """How many files are not taken, by reason."""
        taken = {sighting.absolute for sighting in self.sightings}
        return Counter(reason for path, reason in self.left_out.items() if path not in taken)

    def run(self) -> None:
        """All real directories first, then the linked ones: a file is named by its real place where it has one."""
        while self.trees:
            tree = self.trees.popleft()
            self._search(tree.path, tree.place, tree, named=True)
        while self._links:
            links, self._links = sorted(self._links, key=lambda link: link[:2]), []
            for path, place, tree in links:
                self._search(path, place, tree)

    def _search(self, path: str, place: str, tree: Tree, *, named: bool = False) -> None:
        """From one directory down, depth first. One that the user named is searched even if it is the output root."""
        stack = [(path, place)]
        while stack:
            path, place = stack.pop()
            try:
                if not self._enter(path, tree, named):
                    continue
                with os.scandir(path) as scan:
                    entries = sorted(scan, key=lambda entry: entry.name)
            except OSError as error:
                self.problems.append(_unlistable(path, error))
                continue
            named = False
            below = self._folder(entries, os.path.abspath(path), place, tree)  # noqa: PTH100
            stack.extend(reversed(below))

    def _enter(self, path: str, tree: Tree, named: bool) -> bool:
        status = os.stat(path)  # noqa: PTH116 (strings throughout: 100,000 Path objects cost seconds)
        identity = (status.st_dev, status.st_ino)
        key = (*identity, tree.pattern.text if tree.pattern else None)
        if key in self._seen or (identity == self.skip and not named):
            return False
        self._seen.add(key)
        return True

    def _folder(
        self, entries: Iterable[os.DirEntry[str]], absolute: str, place: str, tree: Tree
    ) -> list[tuple[str, str]]:
        """Take the files of one directory; return its real subdirectories."""
        below: list[tuple[str, str]] = []
        for entry in entries:
            name = entry.name
            if name.startswith("."):
                continue
            try:
                is_directory = entry.is_dir()
            except OSError as error:  # of a link: it goes round in a circle, or where nobody may look
                cause = f"this link could not be followed: {error.strerror or error}"
                self.problems.append(ItemError(Path(entry.path), "discover", cause))
                continue
            spot = f"{place}/{name}" if place else name
            full = f"{absolute.rstrip('/')}/{name}"
            if not is_directory:
                self._file(entry, full, spot, tree)
            elif self._enters(full, spot, tree):
                if entry.is_symlink():
                    self._links.append((entry.path, spot, tree))
                else:
                    below.append((entry.path, spot))
        return below

    def _enters(self, absolute: str, spot: str, tree: Tree) -> bool:
        """Whether a subdirectory is to be searched."""
        if tree.pattern and not tree.pattern.may_hold(tree.below(spot)):
            return False
        if self.filters.exclude and self.filters.leaves_out(f"{tree.filtered(spot)}/"):
            self.left_out[f"{absolute}/"] = "excluded_folders"
            if tree.pattern:
                self.matched.add(tree.pattern)  # nobody knows: it is not looked into
            return False
        return True

    def _file(self, entry: os.DirEntry[str], absolute: str, spot: str, tree: Tree) -> None:
        if tree.pattern:
            if not tree.pattern.matches(tree.below(spot)):
                return
            self.matched.add(tree.pattern)
        # A link to nothing is taken too: it then fails by name instead of vanishing.
        if os.path.splitext(entry.name)[1].lower() not in self.media and not self._kind_named(spot, tree):  # noqa: PTH122
            self.left_out[absolute] = "ignored"
        else:
            self._take(Sighting(entry.path, absolute, spot), tree.filtered(spot), entry.stat)

    def _kind_named(self, spot: str, tree: Tree) -> bool:
        """Whether a pattern says what kind of file is meant."""
        by_pattern = tree.pattern is not None and tree.pattern.names(tree.below(spot))
        return by_pattern or self.filters.names_kind(tree.filtered(spot))

    def _take(self, sighting: Sighting, path: str, stat: Callable[[], os.stat_result]) -> None:
        """Where the filters, which see `path`, let it through."""
        reason = self.filters.reason(path, stat)
        if reason:
            self.left_out[sighting.absolute] = reason
        else:
            self.sightings.append(sighting)


def _unlistable(path: str, error: OSError) -> ItemError:
    return ItemError(Path(path), "discover", f"this folder could not be read: {error.strerror or error}")
