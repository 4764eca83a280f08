"""Options that say which recordings are worked on, beside INPUTS themselves."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from mlxbatch import patterns
from mlxbatch.cli.options import PANEL_WHAT, duration
from mlxbatch.errors import UsageError
from mlxbatch.filters import parse_moment
from mlxbatch.patterns import Pattern


def _pattern(text: str) -> Pattern:
    return patterns.pattern(text)


def _newer_than(text: str) -> float:
    """Seconds since the epoch of --newer-than."""
    try:
        return parse_moment(text, time.time())
    except UsageError as error:
        raise UsageError(f"--newer-than: {error}") from error


def _min_age(text: str) -> float:
    """Seconds of --min-age."""
    return duration("--min-age", text)


Null = Annotated[
    bool,
    typer.Option(
        "--null",
        "-0",
        help="The list of --files-from has NUL bytes between its paths, as find -print0 writes it: any name is safe.",
        rich_help_panel=PANEL_WHAT,
    ),
]
Manifest = Annotated[
    Path | None,
    typer.Option(
        "--manifest",
        metavar="CSV",
        help="Take inputs from a csv with a header: path (from the csv's folder), and language, channels, speakers, "
        "prompt, where one recording needs its own; - is standard input.",
        rich_help_panel=PANEL_WHAT,
        show_default=False,
    ),
]
Include = Annotated[
    list[Pattern] | None,
    typer.Option(
        "--include",
        parser=_pattern,
        metavar="PATTERN",
        help="Only files that match, by their path below the input directory, such as '*.wav' or '2026-*/**'. May be "
        "given more than once.",
        rich_help_panel=PANEL_WHAT,
        show_default=False,
    ),
]
Exclude = Annotated[
    list[Pattern] | None,
    typer.Option(
        "--exclude",
        parser=_pattern,
        metavar="PATTERN",
        help="No files or folders that match, such as '*-hold.wav' or 'old/'. May be given more than once.",
        rich_help_panel=PANEL_WHAT,
        show_default=False,
    ),
]
NewerThan = Annotated[
    float | None,
    typer.Option(
        "--newer-than",
        parser=_newer_than,
        metavar="WHEN|FILE",
        help="Only files changed since: 24h or 7d ago, a date such as 2026-12-01 or 2026-12-01T18:30, or the last "
        "change of another file.",
        rich_help_panel=PANEL_WHAT,
        show_default=False,
    ),
]
MinAge = Annotated[
    float | None,
    typer.Option(
        "--min-age",
        parser=_min_age,
        metavar="DURATION",
        envvar="MLXBATCH_MIN_AGE",
        help="Leave files that changed less than so long ago, such as 1m, to the next run: they may still be being "
        "written. Default: take them.",
        rich_help_panel=PANEL_WHAT,
        show_default=False,
    ),
]
