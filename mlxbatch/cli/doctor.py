"""`mlxbatch doctor`: what would keep a run from working here, each with its remedy."""

from __future__ import annotations

import io
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from mlxbatch.cli import options
from mlxbatch.errors import SetupError

if TYPE_CHECKING:
    from mlxbatch.doctor import Finding

EPILOG = """
Examples:

mlxbatch doctor

mlxbatch doctor out/ --input calls/

env -i /path/to/mlxbatch doctor out/   (as bare as under cron)

A finding is ok, a note (worth knowing), a warning (may spoil a run some day) or a problem (the next run fails). What \
can be done about it stands below it, after an arrow.

Exit codes: 0 no problem, 3 at least one.
"""
STYLES = {"ok": "green", "note": "cyan", "warning": "yellow", "problem": "bold red"}


def doctor(
    output: Annotated[
        Path | None,
        typer.Argument(
            metavar="OUT",
            envvar="MLXBATCH_OUTPUT",
            help="An output directory: its disk, lock and ledger are looked at as well.",
            show_default=False,
        ),
    ] = None,
    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--input",
            metavar="DIR",
            help="A directory of recordings: whether it may be read. More than once is fine.",
            rich_help_panel=options.PANEL_WHAT,
            show_default=False,
        ),
    ] = None,
    model: options.Model = None,
    profile: options.ProfileName = None,
    preset: options.Preset = None,
    as_json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Look for what would keep a run from working on this machine, and say what to do about it.

    Device and its speed, versions, limits, profile, models, disk, permissions, lock, ledger, and what cron lacks.

    Nothing is changed. Run it from the place and the environment that the runs will have: a cron job's own, best.
    """
    from mlxbatch.doctor import Case, examine

    findings = list(examine(Case(output, tuple(inputs or ()), profile, model, preset)))
    code = SetupError.exit_code if any(found.level == "problem" for found in findings) else 0
    _say_anything(sys.stdout)
    (print_json if as_json else print_text)(findings, code, sys.stdout)
    raise typer.Exit(code)


def _say_anything(stream: TextIO) -> None:
    """A locale that cannot print a path is a finding, and must not keep the findings from being printed."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


def print_json(findings: Sequence[Finding], code: int, stream: TextIO) -> None:
    for found in findings:
        print(json.dumps({"event": "finding", **asdict(found)}), file=stream)
    print(json.dumps({"event": "summary", "exit_code": code, **counts(findings)}), file=stream, flush=True)


def counts(findings: Sequence[Finding]) -> dict[str, int]:
    """Level -> how many."""
    found = Counter(finding.level for finding in findings)
    return {level: found[level] for level in ("ok", "note", "warning", "problem")}


def print_text(findings: Sequence[Finding], code: int, stream: TextIO) -> None:
    from mlxbatch.cli.progress import is_terminal
    from mlxbatch.words import count

    (_print_table if is_terminal(stream) else _print_lines)(findings, stream)
    found = counts(findings)
    parts = [count(found[level], level) for level in ("problem", "warning", "note")]
    print(f"mlxbatch: {', '.join(parts)}; exit code {code}", file=stream, flush=True)


def _print_lines(findings: Sequence[Finding], stream: TextIO) -> None:
    width = max((len(found.topic) for found in findings), default=0)
    for found in findings:
        print(f"{found.topic:<{width}}  {found.level:<7}  {found.what}", file=stream)
        if found.remedy:
            print(f"{'':<{width}}  {'':<7}  -> {found.remedy}", file=stream)


def _print_table(findings: Sequence[Finding], stream: TextIO) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    topic = ""
    for found in findings:
        style = STYLES[found.level]
        what = Text(found.what)
        if found.remedy:
            what.append(f"\n→ {found.remedy}", style=style if found.level in ("warning", "problem") else "dim")
        shown = found.topic if found.topic != topic else ""
        grid.add_row(Text(shown, style="bold"), Text(found.level, style=style), what)
        topic = found.topic
    Console(file=stream).print(grid)
