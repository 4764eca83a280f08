"""The line of a TOML file on which a key is set, for error messages: tomllib keeps no positions of values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

_NAME = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"({_NAME}(?:\s*\.\s*{_NAME})*)"
_HEADER = re.compile(rf"\s*\[\s*{_DOTTED}\s*\]")
_ELEMENT = re.compile(rf"\s*\[\[\s*{_DOTTED}\s*\]\]")
_ASSIGNMENT = re.compile(rf"\s*{_DOTTED}\s*=")


def line_of(key: str, text: str) -> int | None:
    """The line, from 1, that sets a dotted key; else one that sets a key below it, or the table around it.

    A key in the second [[when]] is "when[1].key".
    """
    lines = [(found, number) for number, found in _keys(text)]
    while key:
        exact = [number for found, number in lines if found == key]
        if exact or (exact := [number for found, number in lines if found.startswith(f"{key}.")]):
            return exact[0]
        key = key.rpartition(".")[0]
    return None


def _keys(text: str) -> Iterator[tuple[int, str]]:
    """(line, dotted key) of each table header and assignment; what looks like one inside a long string counts too."""
    table, seen = "", Counter[str]()
    for number, line in enumerate(text.split("\n"), start=1):
        if element := _ELEMENT.match(line):
            name = _plain(element[1])
            table = f"{name}[{seen[name]}]"
            seen[name] += 1
            yield number, table
        elif header := _HEADER.match(line):
            table = _in_array(_plain(header[1]), seen)
            yield number, table
        elif assignment := _ASSIGNMENT.match(line):
            name = _plain(assignment[1])
            yield number, f"{table}.{name}" if table else name


def _in_array(table: str, seen: Counter[str]) -> str:
    """[when.device] belongs to the [[when]] before it."""
    first, dot, rest = table.partition(".")
    return f"{first}[{seen[first] - 1}]{dot}{rest}" if dot and seen[first] else table


def _plain(dotted: str) -> str:
    """A dotted key without its quotes and spaces."""
    return ".".join(part.strip().strip("\"'") for part in dotted.split("."))
