"""A csv of recordings and of what is asked for each: `--manifest calls.csv`."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlxbatch.errors import UsageError, show
from mlxbatch.file_list import called, read_bytes
from mlxbatch.languages import language_code
from mlxbatch.types import Wishes
from mlxbatch.wishes import parse_channels, parse_speakers
from mlxbatch.words import nearest

COLUMNS = ("path", "language", "channels", "speakers", "prompt")
# The one that divides the header into the most of these names is that of the whole file.
_DELIMITERS = ",;\t"


@dataclass(frozen=True, slots=True)
class Row:
    """One recording: the path to open, the absolute one that identifies it, and its place below the output root."""

    source: str
    absolute: str
    place: str
    wishes: Wishes
    line: int


Values = Mapping[str, str]


def read_manifest(source: Path) -> list[Row]:
    """The rows of a csv file, each recording once; "-" is standard input.

    UTF-8, with a header; commas, semicolons or tabs between; `path` is needed, other columns and their values need not
    be there. Paths are relative to the csv's own folder, and so are places; what lies elsewhere keeps its name alone.
    UsageError, with line and column, for what cannot be understood, and for a recording that is asked for in two ways.
    """
    # A pipe, be it standard input or a shell's <(...), has no folder: the working directory it is.
    folder = os.path.dirname(source) if os.path.isfile(source) else ""  # noqa: PTH113, PTH120
    base = os.path.join(os.path.abspath(folder), "")  # noqa: PTH100, PTH118
    known: dict[tuple[str, ...], Wishes] = {}
    rows: dict[str, Row] = {}
    for line, values in table(source, COLUMNS):
        try:
            asked = tuple(values.get(column, "") for column in _READERS)
            wishes = known.get(asked) or known.setdefault(asked, _wishes(values))
            path = os.path.join(folder, _path(values["path"]))  # noqa: PTH118
        except UsageError as error:
            raise _wrong(source, line, str(error)) from error
        absolute = os.path.abspath(path)  # noqa: PTH100
        place = absolute.removeprefix(base) if absolute.startswith(base) else os.path.basename(absolute)  # noqa: PTH119
        first = rows.setdefault(absolute, Row(path, absolute, place, wishes, line))
        if first.wishes != wishes:
            raise _wrong(source, line, f"{show(path)} is in line {first.line} already, with other values")
    return list(rows.values())


def _path(text: str) -> str:
    if not text or "\0" in text:
        raise UsageError("column path: " + ("a NUL byte is in it" if text else "empty, and names no file"))
    return text


def _wishes(values: Values) -> Wishes:
    """UsageError, which names the column, where a value is wrong."""
    found: dict[str, Any] = {}
    for column, read in _READERS.items():
        try:
            found[column] = read(values[column]) if values.get(column) else None
        except UsageError as error:
            raise UsageError(f"column {column}: {error}") from error
    return Wishes(**found)


_READERS: dict[str, Callable[[str], object]] = {
    "language": language_code,
    "channels": parse_channels,
    "speakers": parse_speakers,
    "prompt": str,
}


# --- the file --------------------------------------------------------------------------------------------------------


def table(source: Path, known: Sequence[str]) -> Iterator[tuple[int, Values]]:
    """Each row of a csv that is not blank: the line in which it begins, and its values by column.

    `known` are the columns that there may be; `path` is needed. UsageError as in `read_manifest`.
    """
    text = _text(source)
    delimiter = _delimiter(text, known)
    records = _records(source, text, delimiter)
    columns = _columns(source, known, *next(records, (1, [])))
    for line, values in records:
        values = [value.strip() for value in values]
        if any(values[len(columns) :]):
            found = f"{len(values)} values, and the header has {len(columns)} columns"
            raise _wrong(source, line, f"{found}: a value with {_name(delimiter)} in it stands in quotes")
        if any(values):
            yield line, dict(zip(columns, values, strict=False))


def _records(source: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """All records but the blank ones, the header first: the line in which each begins, and its values."""
    # newline="": a line end in quotes is part of the value.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True, skipinitialspace=True)
    line = 1
    while True:
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise _wrong(source, line, f"not csv: {error}") from error
        if any(value.strip() for value in values):
            yield line, values
        line = reader.line_num + 1


def _delimiter(text: str, known: Sequence[str]) -> str:
    """By the header alone, since values may hold the others."""
    header = next((line for line in text.splitlines() if line.strip()), "")
    found = {one: sum(_plain(name) in known for name in header.split(one)) for one in _DELIMITERS}
    return max(_DELIMITERS, key=lambda one: (found[one], header.count(one)))


def _plain(name: str) -> str:
    return name.strip().strip('"').strip().lower()


def _columns(source: Path, known: Sequence[str], line: int, header: Sequence[str]) -> list[str]:
    """The header's names in lower case, without those at its end that have none; UsageError where one is not ours."""
    names = [name.strip().lower() for name in header]
    while names and not names[-1]:
        names.pop()
    for name in names:
        if name not in known:
            raise _wrong(source, line, f"unknown column '{show(name)}'{nearest(name, known)} ({_listed(known)})")
        if names.count(name) > 1:
            raise _wrong(source, line, f"two columns are called {name}")
    if "path" not in names:
        raise _wrong(source, line, f"no column path, which names the recordings ({_listed(known)})")
    return names


def _listed(known: Sequence[str]) -> str:
    return f"there are: {', '.join(known)}, with commas, semicolons or tabs between"


def _name(delimiter: str) -> str:
    return {",": "a comma", ";": "a semicolon"}.get(delimiter, "a tab")


def _text(source: Path) -> str:
    content = read_bytes(source, "manifest")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _wrong(source, line, "not UTF-8: save it as CSV in UTF-8, or convert it with iconv -t UTF-8") from error


def _wrong(source: Path, line: int, text: str) -> UsageError:
    return UsageError(f"{called(source)}, line {line}: {text}")
