"""A report's tables, as text in cells: what the terminal and the page both show. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from mlxbatch.leak_words import leak_line
from mlxbatch.metrics import step_taken
from mlxbatch.report.compare import model
from mlxbatch.report.content import Report
from mlxbatch.report.log import Facts, number, text
from mlxbatch.report.run import Run
from mlxbatch.words import clock, elapsed, minutes, share, size

UNKNOWN = "-"
# So many of the governor's steps, and changes of load, are listed; the JSON has them all.
STEPS = 40
# So many runs are listed, the latest; the picture has more.
RUNS = 20

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A titled table. Columns whose name is in `numbers` are set to the right; `note` follows the table."""

    title: str
    columns: Row
    rows: tuple[Row, ...]
    numbers: frozenset[str] = field(default_factory=frozenset)
    note: str = ""


def moment(at: str | None) -> str:
    """ "2026-11-30 22:15 UTC" of an ISO time in UTC."""
    try:
        return f"{datetime.fromisoformat(at or ''):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return at or UNKNOWN


def figures(report: Report) -> Section:
    """The run's figures, each beside the median of comparable earlier runs where there is one."""
    found = report.run.figures
    rows: list[Row] = [
        ("files", _outcomes(report), ""),
        *_totals(report),
        ("audio", _of(found.audio_seconds, minutes), ""),
        ("time", _of(found.wall_seconds, elapsed), ""),
        ("RTFx", _of(found.rtfx, "{:.1f}".format), _ratio(report, "rtfx", "{:.1f}".format)),
    ]
    for name, value in (("p50", found.p50), ("p95", found.p95), ("p99", found.p99)):
        rows.append((f"a window, {name}", _of(value, _seconds), _ratio(report, name, _seconds)))
    rows += [
        ("peak memory, device", _of(found.peak_bytes, _size), _ratio(report, "peak_bytes", _size)),
        ("peak memory, process", _of(found.peak_rss_bytes, _size), ""),
        ("CPU, mean / max", _use(found.cpu, found.cpu_max), ""),
        ("GPU, mean / max", _use(found.gpu, found.gpu_max), ""),
        ("padding", _of(found.padding_ratio, share), ""),
        ("device waited", _of(found.wait_fraction, share), ""),
        ("warnings", f"{found.warnings:,}" if found.known else UNKNOWN, ""),
    ]
    return Section("Figures", ("figure", "this run", "beside earlier runs"), tuple(rows))


def _outcomes(report: Report) -> str:
    found = report.run.figures
    if not found.known:
        return UNKNOWN
    counts = {"done": found.done, "failed": found.failed, "skipped": found.skipped, "left": found.left}
    parts = [f"{count:,} {name}" for name, count in counts.items() if count or name in ("done", "failed")]
    parts += ["how many are left is not known"] if found.left is None else []
    parts += [f"{found.rendered:,} of the done without inference"] if found.rendered else []
    return ", ".join(parts)


def _totals(report: Report) -> list[Row]:
    """What all runs together have come to."""
    if report.totals is None:
        return []
    told = ", ".join(f"{count:,} {status}" for status, count in report.totals.items())
    return [("files, all runs until now", told, "")]


def _of(value: float | None, told: Callable[[float], str]) -> str:
    return UNKNOWN if value is None else told(value)


def _seconds(value: float) -> str:
    return f"{value:.2f} s"


def _size(value: float) -> str:
    return size(round(value))


def _use(mean: float | None, most: float | None) -> str:
    return UNKNOWN if mean is None else f"{share(mean)} / {_of(most, share)}"


def _ratio(report: Report, name: str, told: Callable[[float], str]) -> str:
    found = report.against.get(name)
    return f"{found.ratio:.2f} x {told(found.median)} (median of {found.runs})" if found else ""


def skipped(report: Report) -> Section:
    """Why files were skipped: "done on 2026-11-29" and "done on 2026-11-30" are one reason."""
    reasons: Counter[str] = Counter()
    for why, times in report.run.figures.skip_reasons.items():
        reasons["done before" if why.startswith("done on ") else why] += times
    rows = tuple((f"{times:,}", why) for why, times in reasons.most_common())
    return Section("Skipped", ("files", "why"), rows, frozenset({"files"}))


def slowest(report: Report) -> Section:
    rows = tuple(
        (elapsed(slow.took), minutes(slow.seconds), f"{slow.speed:.1f}", slow.source) for slow in report.slowest
    )
    columns = ("took", "audio", "audio s / s", "file")
    note = "Took is the time that a file's windows spent in batches, side by side with those of others."
    return Section("Slowest files", columns, rows, frozenset(columns[:3]), note if rows else "")


def stages(report: Report) -> Section:
    """Busy seconds of each stage."""
    found = report.run.figures
    rows = [
        (name, elapsed(seconds), share(seconds / found.wall_seconds) if found.wall_seconds else UNKNOWN)
        for name, seconds in sorted(found.stage_seconds.items(), key=lambda stage: -stage[1])
    ]
    columns = ("stage", "busy", "of the time")
    note = "Stages run side by side, so that their times need not add up." if rows else ""
    return Section("Stages", columns, tuple(rows), frozenset(columns[1:]), note)


def governor(report: Report) -> Section:
    """Every step the governor took, and how full the memory was."""
    steps = report.log.governor
    rows = tuple(_step(step) for step in steps[:STEPS])
    more = len(steps) - STEPS
    note = f"{more:,} more are in the run's log." if more > 0 else _counted(report)
    columns = ("at", "step", "before", "used", "rows", "why")
    return Section("Governor", columns, rows, frozenset({"at", "used", "rows"}), note)


def _counted(report: Report) -> str:
    """Of a run whose log is gone: how often each step was taken."""
    steps = report.run.figures.governor
    if report.log.governor or not steps:
        return ""
    return "Steps taken: " + ", ".join(f"{step} {times}" for step, times in steps.items()) + "."


def _step(step: Facts) -> Row:
    full = _of(number(step, "share"), share)
    rows = number(step, "rows")
    at = _of(number(step, "t"), clock)
    what = "cache" if step_taken(step) == "cache" else text(step, "step")
    return at, what, text(step, "was"), full, "" if rows is None else f"{rows:.0f}", text(step, "why")


def load(report: Report) -> Section:
    """When the machine came to be over `--max-load`, and when it was no longer."""
    events = report.log.loads
    rows = tuple(
        (
            _of(number(event, "t"), clock),
            _of(number(event, "load"), "{:.2f}".format),
            _of(number(event, "max_load"), "{:g}".format),
            "waits" if event.get("busy") is True else "goes on",
        )
        for event in events[:STEPS]
    )
    more = len(events) - STEPS
    columns = ("at", "load average", "--max-load", "new work")
    note = f"{more:,} more are in the run's log." if more > 0 else ""
    return Section("Load", columns, rows, frozenset(columns[:3]), note)


def engine(report: Report) -> Section:
    """What became of the engine's process: deaths, stalls, renewals, leaks, in the order of time."""
    events = [(number(event, "t") or 0.0, text(event, "what"), text(event, "cause")) for event in report.log.children]
    events += [(number(leak, "t") or 0.0, "leak", _leak(leak)) for leak in report.log.leaks]
    rows = tuple((clock(at), what, cause) for at, what, cause in sorted(events))
    return Section("The engine's process", ("at", "what", "cause"), rows, frozenset({"at"}), _happened(report))


def _happened(report: Report) -> str:
    """Of a run whose log is gone: how often what happened."""
    found = report.run.figures
    counts = {"died": found.deaths, "stood still": found.stalls, "renewed": found.renewals, "leaks": found.leaks}
    told = [f"{what} {times}" for what, times in counts.items() if times]
    return f"Counted: {', '.join(told)}." if told and report.run.log is None else ""


def _leak(leak: Facts) -> str:
    """The sentence of the lines, of what has the form of a figure."""
    found = {name: figure for name in leak if (figure := number(leak, name)) is not None}
    return leak_line({"what": text(leak, "what"), "of": text(leak, "of"), **found})


def trend(report: Report) -> Section:
    """This run and those before it, the latest first, each with what was changed before it."""
    changed: dict[str, list[str]] = {}
    for change in report.changes:
        changed.setdefault(change.run, []).append(f"{change.what} {change.was} -> {change.now}")
    runs = [*report.earlier, report.run][-RUNS:]
    rows = tuple(_trend_row(run, changed.get(run.id, [])) for run in reversed(runs))
    columns = ("began", "state", "done", "failed", "RTFx", "p95", "peak", "changed")
    return Section("Run by run", columns, rows, frozenset(columns[2:7]))


def _trend_row(run: Run, changed: Sequence[str]) -> Row:
    found = run.figures
    counts = (f"{found.done:,}", f"{found.failed:,}") if found.known else (UNKNOWN, UNKNOWN)
    figures = (_of(found.rtfx, "{:.1f}".format), _of(found.p95, _seconds), _of(found.peak_bytes, _size))
    return moment(run.began), run.state, *counts, *figures, "; ".join(changed)


def facts(report: Report) -> Section:
    """How the run was begun, and on what."""
    run, told = report.run, report.run.facts
    rows: list[Row] = [("run", run.id), ("began", moment(run.began))]
    rows += [("ended", moment(run.ended))] if run.ended else []
    rows += [("model", model(told))] if model(told) else []
    for name in ("profile", "engine", "version", "batch_size", "dtype", "command", "host", "platform", "python"):
        rows += [(name.replace("_", " "), _plain(told[name]))] if told.get(name) not in (None, "") else []
    versions = told.get("versions")
    if isinstance(versions, Mapping):
        rows.append(("versions", ", ".join(f"{_plain(name)} {_plain(number)}" for name, number in versions.items())))
    unreadable = report.log.unreadable
    note = f"{unreadable} lines of the log cannot be read, and are passed over." if unreadable else ""
    note = note or ("" if run.log is not None else "The run's log has been removed; these are the ledger's figures.")
    return Section("The run", ("fact", "value"), tuple(rows), note=note)


def _plain(value: object) -> str:
    return text({"value": str(value)}, "value")
