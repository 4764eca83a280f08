"""What a run came to: a table for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from mlxbatch.errors import show
from mlxbatch.words import count, elapsed, files, minutes, not_taken, size

# Failures and warnings that are listed; the run's log has them all.
LISTED = 20

Rows = list[tuple[str, str]]


def rows(summary: Mapping[str, Any]) -> Rows:
    """The table: label and value, of `RunStats.summary`."""
    table: Rows = [("done", _done(summary))]
    if summary["skipped"]:
        table.append(("skipped", _skipped(summary)))
    table.append(("failed", str(summary["failed"])))
    if summary["left"]:
        table.append(("left", f"{summary['left']} (time limit): run the same command again to go on"))
    if left_out := not_taken(summary["not_taken"]):
        table.append(("not taken", left_out))
    table.append(("time", _time(summary)))
    if summary["windows"]:
        latency = summary["window_latency_seconds"]
        figures = " / ".join(f"{latency[name]:.2f}" for name in ("p50", "p95", "p99"))
        table.append(("a window took", f"{figures} s (p50 / p95 / p99 of {summary['windows']})"))
    if summary["peak_bytes"] or summary["peak_rss_bytes"]:
        peak = f"{size(summary['peak_bytes'])} on the device, {size(summary['peak_rss_bytes'])} its process"
        table.append(("peak memory", peak))
    return table


def _done(summary: Mapping[str, Any]) -> str:
    rendered = f" ({summary['rendered']} from stored results, without inference)" if summary["rendered"] else ""
    return f"{summary['done']}{rendered}"


def _skipped(summary: Mapping[str, Any]) -> str:
    reasons = ", ".join(f"{number} {why}" for why, number in summary["skip_reasons"].items())
    return f"{summary['skipped']} ({reasons})"


def _time(summary: Mapping[str, Any]) -> str:
    rate = f", RTFx {summary['rtfx']:.1f}" if summary["audio_seconds"] and summary["rtfx"] else ""
    audio = f" for {minutes(summary['audio_seconds'])} of audio" if summary["audio_seconds"] else ""
    return f"{elapsed(summary['wall_seconds'])}{audio}{rate}"


def notes(title: str, lines: Sequence[str], log: Path | None) -> list[str]:
    """At most LISTED lines under their title, and where the others are."""
    if not lines:
        return []
    more = len(lines) - LISTED
    where = f", see {show(log)}" if log else ""
    return [
        f"{title}:",
        *(f"  {line}" for line in lines[:LISTED]),
        *([f"  and {more} more{where}"] if more > 0 else []),
    ]


def failure_lines(summary: Mapping[str, Any]) -> list[str]:
    return [f"{failed['path']}: {failed['stage']}: {show(failed['error'])}" for failed in summary["failures"]]


def end_line(summary: Mapping[str, Any]) -> str:
    """The run in one line, for a log."""
    parts = [f"{files(summary['done'])} done", f"{summary['skipped']} skipped", f"{summary['failed']} failed"]
    parts += [f"{summary['left']} left"] if summary["left"] else []
    parts += [left_out] if (left_out := not_taken(summary["not_taken"])) else []
    parts += [count(summary["warnings"], "warning")] if summary["warnings"] else []
    return f"{', '.join(parts)} in {elapsed(summary['wall_seconds'])}"


def show_summary(
    summary: Mapping[str, Any], warned: Sequence[str], log: Path | None, stream: TextIO, *, terminal: bool
) -> None:
    """Print the table, then warnings and failures with their causes. That nobody can read it ends no run."""
    with suppress(OSError, ValueError):
        _print_summary(summary, warned, log, stream, terminal)


def _print_summary(
    summary: Mapping[str, Any], warned: Sequence[str], log: Path | None, stream: TextIO, terminal: bool
) -> None:
    if terminal:
        _show_table(rows(summary), stream)
    else:
        print(*_aligned(rows(summary)), sep="\n", file=stream)
    for line in (*notes("warnings", warned, log), *notes("failed", failure_lines(summary), log)):
        print(line, file=stream)
    stream.flush()


def _aligned(table: Rows) -> list[str]:
    width = max(len(label) for label, _ in table)
    return [f"  {label:<{width}}  {value}" for label, value in table]


def _show_table(table: Rows, stream: TextIO) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    for label, value in table:
        style = "bold red" if label == "failed" and value != "0" else ""
        grid.add_row(Text(label, style="bold"), Text(value, style=style))
    Console(file=stream).print(grid)
