"""The line of a TOML file on which a key is set, for error messages: tomllib keeps no positions of values."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NAME = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"({_NAME}(?:\s*\.\s*{_NAME})*)"
_HEADER = re.compile(rf"\s*\[\s*{_DOTTED}\s*\]")
_ASSIGNMENT = re.compile(rf"\s*{_DOTTED}\s*=")


def line_of(key: str, text: str) -> int | None:
    """The line, from 1, that sets a dotted key, or the table around it where the key has no line of its own."""
    while key:
        for number, found in _keys(text):
            if found == key:
                return number
        key = key.rpartition(".")[0]
    return None


def _keys(text: str) -> Iterator[tuple[int, str]]:
    """(line, dotted key) of each table header and assignment; what looks like one inside a long string counts too."""
    table = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if header := _HEADER.match(line):
            table = _plain(header[1])
            yield number, table
        elif assignment := _ASSIGNMENT.match(line):
            name = _plain(assignment[1])
            yield number, f"{table}.{name}" if table else name


def _plain(dotted: str) -> str:
    """A dotted key without its quotes and spaces."""
    return ".".join(part.strip().strip("\"'") for part in dotted.split("."))
