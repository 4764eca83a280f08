"""A report as text: tables drawn on a terminal, columns of plain ASCII lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from mlxbatch.report import sections
from mlxbatch.report.content import Report
from mlxbatch.report.sections import Section
from mlxbatch.report.verdict import Tone, tone, verdict
from mlxbatch.words import files

if TYPE_CHECKING:
    from rich.console import RenderableType

# Files that are named for each cause; JSON and HTML name more.
NAMED = 5
_STYLES: dict[Tone, str] = {"good": "bold green", "fair": "bold yellow", "bad": "bold red", "open": "bold"}


def show_report(report: Report, stream: TextIO, *, terminal: bool) -> None:
    """Print all of a report to a stream; `terminal` says whether it can be drawn on."""
    if terminal:
        _draw(report, stream)
    else:
        print("\n".join(plain(report)), file=stream)
    stream.flush()


def plain(report: Report) -> Iterator[str]:
    """The report's lines."""
    found = verdict(report)
    yield f"run {report.run.id}, {sections.moment(report.run.began)}"
    yield found.sentence
    if found.detail:
        yield found.detail
    for section in _sections(report):
        yield from ("", section.title, *_aligned(section), *([f"  {section.note}"] if section.note else []))


def _sections(report: Report) -> list[Section]:
    """Those that have something to tell, what needs doing first."""
    found = [
        sections.figures(report),
        failures(report),
        quarantined(report),
        sections.skipped(report),
        sections.slowest(report),
        sections.engine(report),
        sections.governor(report),
        sections.load(report),
        sections.stages(report),
        sections.trend(report) if report.earlier else None,
        sections.facts(report),
    ]
    return [section for section in found if section is not None and (section.rows or section.note)]


def failures(report: Report) -> Section:
    """Causes, each with the first of its files below it."""
    rows: list[tuple[str, ...]] = []
    for cause in report.causes:
        rows.append((f"{len(cause.failures):,}", f"{cause.stage}: {cause.text}"))
        rows += [("", f"  {failure.source}") for failure in cause.failures[:NAMED]]
        more = len(cause.failures) - NAMED
        rows += [("", f"  and {more:,} more")] if more > 0 else []
    return Section("Failures by cause", ("files", "cause"), tuple(rows), frozenset({"files"}))


def quarantined(report: Report) -> Section:
    rows = tuple((source,) for source in report.quarantined)
    note = f"{files(len(rows))}: passed over until changed, or with --retry-quarantined." if rows else ""
    return Section("Quarantined", ("file",), rows, note=note)


def _aligned(section: Section) -> Iterator[str]:
    lines = [section.columns, *section.rows] if section.rows else []
    widths = [max((len(line[place]) for line in lines), default=0) for place in range(len(section.columns))]
    for line in lines:
        cells = [
            cell.rjust(width) if name in section.numbers else cell.ljust(width)
            for cell, width, name in zip(line, widths, section.columns, strict=True)
        ]
        yield f"  {'  '.join(cells)}".rstrip()


def _draw(report: Report, stream: TextIO) -> None:
    from rich.console import Console
    from rich.text import Text

    console, found = Console(file=stream), verdict(report)
    console.print(Text(f"run {report.run.id}, {sections.moment(report.run.began)}", style="dim"))
    console.print(Text(found.sentence, style=_STYLES[tone(report)]))
    if found.detail:
        console.print(Text(found.detail))
    for section in _sections(report):
        console.print()
        console.print(_drawn(section))
        if section.note:
            console.print(Text(section.note, style="dim"))


def _drawn(section: Section) -> RenderableType:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(section.title, style="bold"), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in section.columns:
        right = name in section.numbers
        table.add_column(name, justify="right" if right else "left", no_wrap=right, overflow="fold")
    for row in section.rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
