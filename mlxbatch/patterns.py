"""Patterns of paths, as the shell and .gitignore have them. Pure.

`*` and `?` stand for any characters and for one, `[abc]`, `[a-z]` and `[!abc]` for one of some, all within one name;
`**`, where it is a whole part, for any number of folders. `[*]` is a star itself. Upper and lower case differ.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from mlxbatch.errors import UsageError, show

_WILD = re.compile(r"[*?\[]")
_TOKEN = re.compile(r"(?P<star>\*+)|(?P<one>\?)|\[(?P<none>[!^]?)(?P<of>\]?[^\]]+|\])\]|(?P<itself>.)", re.DOTALL)
_CHARACTERS = re.compile(r"(.)-(.)|(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern of paths below one folder; a folder that matches stands for all that is below it."""

    text: str
    _open: bool  # it ends in a star, and leaves open what kind of file is meant
    _whole: re.Pattern[str]
    _start: re.Pattern[str]

    def matches(self, path: str) -> bool:
        """Whether a file, or a folder where the path ends in "/", is what the pattern stands for, or below it."""
        return self._whole.fullmatch(_one_form(path)) is not None

    def names(self, path: str) -> bool:
        """Whether the file itself, not only a folder above it, is meant, its kind included: "*.bin", not "x/*"."""
        found = None if self._open else self._whole.fullmatch(_one_form(path))
        return found is not None and found["below"] is None

    def may_hold(self, folder: str) -> bool:
        """Whether anything below this folder can match; without it, a search need not enter."""
        folder = _one_form(folder)
        return bool(self._start.fullmatch(folder) or self._whole.fullmatch(f"{folder}/"))


def pattern(text: str, *, from_top: bool = False) -> Pattern:
    """Without a "/" before its end it is a name, wherever it is; otherwise, or `from_top`, a path from the top.

    One that ends in "/" stands for folders alone. UsageError where it is none.
    """
    parts = [part for part in _one_form(text).split("/") if part not in ("", ".")]
    if not parts:
        raise UsageError(f"not a pattern: '{show(text)}' (write it as '*.wav', 'old/' or '2026-*/**')")
    if not from_top and "/" not in text.rstrip("/"):
        parts = ["**", *parts]
    folders_only = text.endswith("/")
    try:
        whole, start = re.compile(_whole(parts, folders_only), re.DOTALL), re.compile(_start(parts), re.DOTALL)
    except re.error as error:
        raise UsageError(f"not a pattern: '{show(text)}' ({error.msg})") from error
    return Pattern(text, parts[-1].endswith("*"), whole, start)


def is_pattern(path: Path) -> bool:
    return _WILD.search(str(path)) is not None


def split(path: Path) -> tuple[Path, str]:
    """The folder that stands before the first wildcard, and the pattern below it."""
    fixed = list(takewhile(lambda part: not _WILD.search(part), path.parts))
    return Path(*fixed), "/".join(path.parts[len(fixed) :])


def _whole(parts: Sequence[str], folders_only: bool) -> str:
    regex = "".join("(?:.*/)?" if part == "**" else f"{_name(part)}/" for part in parts[:-1])
    if parts[-1] == "**":
        return f"{regex}.*"
    return f"{regex}{_name(parts[-1])}(?P<below>/.*){'' if folders_only else '?'}"


def _start(parts: Sequence[str]) -> str:
    """What folders on the way to a match look like: the first part, the first two and so on, but not all of them."""
    head = [_name(part) for part in takewhile(lambda part: part != "**", parts[:-1])]
    ways = ["/".join(head[: n + 1]) for n in range(len(head))]
    if "**" in parts:
        ways.append("/".join([*head, ".*"]))
    return "|".join(ways) or "(?!)"


def _name(part: str) -> str:
    """One part as a regular expression.

    What stands between two stars is taken where it comes first, once and for all (an atomic group): with each star
    trying every place, a pattern with many of them would take for ever.
    """
    pieces = [""]
    for token in _TOKEN.finditer(part):
        if token["star"]:
            pieces.append("")
        else:
            pieces[-1] += _token(token)
    first, *others = pieces
    if not others:
        return first
    return first + "".join(f"(?>[^/]*?{piece})" for piece in others[:-1]) + f"[^/]*{others[-1]}"


def _token(token: re.Match[str]) -> str:
    if token["one"]:
        return "[^/]"
    if token["itself"]:
        return re.escape(token["itself"])
    characters = _CHARACTERS.sub(_range, token["of"])
    return f"(?!/)[{'^' if token['none'] else ''}{characters}]"


def _range(found: re.Match[str]) -> str:
    first, last, single = found.groups()
    return re.escape(single) if single else f"{re.escape(first)}-{re.escape(last)}"


def _one_form(text: str) -> str:
    """Accented letters are stored in one form by some file systems, typed in another."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)
