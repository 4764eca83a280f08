"""`mlxbatch report`: how a run went, beside the runs before it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlxbatch.cli import options

if TYPE_CHECKING:
    from mlxbatch.report.conditions import Condition
    from mlxbatch.report.content import Report

FORMATS = ("table", "json", "html")
_SUFFIXES = {".json": "json", ".html": "html", ".htm": "html"}
EPILOG = """
Examples:

mlxbatch report out/

mlxbatch report out/ -o night.html

mlxbatch report out/ --run 20261130T22 --format json | jq .run.figures.rtfx

mlxbatch report out/ --fail-if 'failed>1% or rtfx<5 or killed'

Names for --fail-if: items, done, failed, skipped, quarantined, left, warnings, killed, stopped, rtfx, p50, p95, p99, \
wall, age, audio, peak, cpu, gpu and others; docs/report.md tells all of them, and the keys of the JSON.

Exit codes: 0 reported, 2 usage or no runs there, 3 cannot be read or written, 5 ledger damaged, 6 a --fail-if \
condition is met.
"""

Out = Annotated[
    Path,
    typer.Argument(metavar="[OUT]", envvar="MLXBATCH_OUTPUT", help="The output directory of the runs. Default: here."),
]
RunId = Annotated[
    str,
    typer.Option(
        "--run",
        metavar="ID",
        help="A run's id, or the unique beginning of one, such as its date.",
        rich_help_panel=options.PANEL_WHAT,
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="table|json|html",
        help="What is made. Default: what the file's name says, else a table.",
        rich_help_panel=options.PANEL_HOW,
        show_default=False,
    ),
]
File = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Where it goes; written whole, by rename. Default: standard output.",
        rich_help_panel=options.PANEL_HOW,
        show_default=False,
    ),
]
FailIf = Annotated[
    str | None,
    typer.Option(
        "--fail-if",
        metavar="EXPR",
        help="End with code 6 where this is true of the run, such as 'failed>1% or rtfx<5'.",
        rich_help_panel=options.PANEL_HOW,
        show_default=False,
    ),
]


def report(
    out: Out = Path(),
    run: RunId = "latest",
    form: Format = None,
    output: File = None,
    fail_if: FailIf = None,
    debug: options.Debug = False,
) -> None:
    """How a run went, beside the runs before it: files, speed, memory, failures, what was changed.

    A table in the terminal, JSON for programs, or one HTML page with pictures that needs no network.

    It reads what the runs left in OUT/.mlxbatch and writes nothing there, also while a run is going on.
    """
    from mlxbatch.report.conditions import parse
    from mlxbatch.report.content import make_report
    from mlxbatch.report.run import read_history

    chosen = _format(form, output)
    condition = parse(fail_if) if fail_if is not None else None
    found = make_report(read_history(out, run))
    _tell(found, chosen, output)
    if condition is not None:
        _judge(fail_if or "", condition, found)


def _format(form: str | None, output: Path | None) -> str:
    """The format that was asked for, or that the file's name says; UsageError where it does not fit."""
    from mlxbatch.errors import UsageError
    from mlxbatch.words import nearest

    suffix = _SUFFIXES.get(output.suffix.lower(), "table") if output is not None else "table"
    chosen = form.strip().lower() if form is not None else suffix
    if chosen not in FORMATS:
        raise UsageError(f"unknown format {chosen!r}{nearest(chosen, FORMATS)} (there are: {', '.join(FORMATS)})")
    if chosen == "html" and output is None and sys.stdout.isatty():
        raise UsageError("an HTML page is no good in a terminal: name a file, such as -o report.html")
    return chosen


def _tell(found: Report, chosen: str, output: Path | None) -> None:
    from mlxbatch.cli.progress import is_terminal
    from mlxbatch.report.table import plain, show_report

    if chosen == "table" and output is None:
        show_report(found, sys.stdout, terminal=is_terminal(sys.stdout))
        return
    if chosen == "html":
        from mlxbatch.report.page import to_html

        text = to_html(found)
    elif chosen == "json":
        from mlxbatch.report.data import to_json

        text = to_json(found)
    else:
        text = "".join(f"{line}\n" for line in plain(found))
    if output is None:
        # UTF-8 whatever the locale: the page says that it is.
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.flush()
    else:
        _write(output, text)


def _write(output: Path, text: str) -> None:
    """To a file by rename; to what is no file (/dev/stdout, a pipe) as it comes."""
    from mlxbatch.errors import ItemError, SetupError, UsageError, show
    from mlxbatch.writers.files import write_outputs

    target = output.resolve()
    try:
        if target.exists() and not target.is_file() and not target.is_dir():
            target.write_text(text, "utf-8")
        elif target.is_dir():
            raise UsageError(f"{show(output)} is a directory: name a file in it, such as {show(output)}/report.html")
        else:
            write_outputs({target: text}, target.parent)
    except ItemError as error:
        raise UsageError(f"cannot write {show(output)}: {error.cause}") from error
    except OSError as error:
        raise SetupError(f"cannot write {show(output)}: {error.strerror or error}") from error


def _judge(source: str, condition: Condition, found: Report) -> None:
    """ConditionMet, with the figures that met it; a note where a figure is not known."""
    from datetime import UTC, datetime

    from mlxbatch.errors import ConditionMet, show
    from mlxbatch.report.conditions import unknown
    from mlxbatch.report.names import told, values

    figures = values(found.run, found.against, datetime.now(UTC))
    missing = unknown(condition, figures)
    if missing:
        print(f"mlxbatch: not known of this run, for --fail-if: {', '.join(missing)}", file=sys.stderr)
    if condition.holds(figures):
        deciding = {part.source: told(part.name, figures) for part in condition.deciding(figures)}
        reasons = "; ".join(f"{show(part)} ({figure})" for part, figure in deciding.items())
        raise ConditionMet(f"--fail-if {show(source)!r} is met by run {found.run.id}: {reasons}")
