"""The pictures of a page, each drawn twice: for a wide window, and for a narrow one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlxbatch.report.content import Report
from mlxbatch.report.run import Run
from mlxbatch.report.series import Point, Unit, readings, stretches, thinned, unit_of
from mlxbatch.report.svg import COLOURS, drawing, to_svg
from mlxbatch.words import count, share, size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE, NARROW = 8.4, 3.5  # inches; the page stretches both to the width it has
# Points of a curve for each inch: more cannot be told apart.
_DENSITY = 45
_GB = 1e9
_LINES = ((0.8, "80 %", "muted"), (0.9, "90 %", "fair"), (1.0, "limit", "bad"))


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart: its caption says what it shows, `description` what is to be seen in it."""

    title: str
    description: str
    wide: str
    narrow: str


def pictures(report: Report) -> dict[str, Picture]:
    """Those that there is something to show in: "memory", "use", "trend"."""
    with drawing():
        return {name: picture for name, picture in _drawn(report) if picture is not None}


def _drawn(report: Report) -> Iterator[tuple[str, Picture | None]]:
    yield "memory", _memory(report) if readings(report.log.samples, "rss") else None
    yield "use", _use(report) if readings(report.log.samples, "cpu") else None
    yield "trend", _trend(report) if report.earlier else None


def _picture(name: str, title: str, description: str, draw: Callable[[float], Figure]) -> Picture:
    wide, narrow = (
        to_svg(draw(width), f"{name}-{kind}", title, description)
        for kind, width in (("wide", WIDE), ("narrow", NARROW))
    )
    return Picture(title, description, wide, narrow)


# ---- memory


def _memory(report: Report) -> Picture:
    figures, limit = report.run.figures, report.limit
    peak = f"Its peak was {size(round(figures.peak_bytes))}" if figures.peak_bytes else "Its peak is not known"
    of = f", the limit is {size(round(limit))}" if limit else ""
    steps = ", ".join(f"{step} {count(times, 'time')}" for step, times in figures.governor.items())
    taken = f" The governor's steps: {steps}." if steps else " The governor took no step."
    return _picture("memory", "Memory over the run", f"{peak}{of}.{taken}", lambda width: _memory_figure(report, width))


def _memory_figure(report: Report, width: float) -> Figure:
    from matplotlib.figure import Figure

    spans = stretches(report.log.governor, report.log.seconds)
    lanes = list(dict.fromkeys(span.step for span in spans))
    unit = unit_of(report.log.seconds)
    heights = [2.2, 0.12 + 0.17 * len(lanes)] if lanes else [2.2]
    figure = Figure(figsize=(width, sum(heights) + 0.6), layout="constrained")
    axes = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    _memory_lines(axes[0], report, unit, round(_DENSITY * width))
    for span in spans:
        axes[0].axvspan(span.begin / unit.seconds, span.end / unit.seconds, color=COLOURS["fair"], alpha=0.12, lw=0)
    if lanes:
        _lanes(axes[1], lanes, [(s.step, s.begin / unit.seconds, s.end / unit.seconds) for s in spans])
    axes[-1].set_xlabel(f"{unit.name} since the run began")
    axes[-1].set_xlim(0, max(report.log.seconds / unit.seconds, 1e-9))
    return figure


def _memory_lines(axes: Axes, report: Report, unit: Unit, most: int) -> None:
    samples, limit = report.log.samples, report.limit
    lines = [("resident, its process", readings(samples, "rss", 1 / _GB), "second", "-")]
    lines += [("active on the device", readings(samples, "active", 1 / _GB), "first", "-")]
    if limit:
        lines += [("counted against the limit", readings(samples, "share", limit / _GB), "ink", ":")]
    for label, points, colour, style in lines:
        if points:
            axes.plot(*_xy(thinned(points, max, most), unit), label=label, color=COLOURS[colour], linestyle=style)
    for part, name, colour in _LINES if limit else ():
        assert limit
        axes.axhline(part * limit / _GB, color=COLOURS[colour], linewidth=0.9, linestyle="--")
        place = (1.008, part * limit / _GB)
        axes.annotate(name, place, xycoords=("axes fraction", "data"), va="center", fontsize=7.5, color=COLOURS[colour])
    axes.set_ylim(bottom=0)
    axes.set_title("GB")
    axes.figure.legend(loc="outside upper right", ncols=2 if axes.figure.get_figwidth() < WIDE else 3)  # type: ignore[union-attr]


def _lanes(axes: Axes, lanes: Sequence[str], spans: Sequence[tuple[str, float, float]]) -> None:
    """A row for each step, filled while it was in force; too short to be seen is drawn a little longer."""
    least = max((end for _, _, end in spans), default=0.0) * 0.004
    for place, lane in enumerate(lanes):
        bars = [(begin, max(end - begin, least)) for step, begin, end in spans if step == lane]
        axes.broken_barh(bars, (place - 0.36, 0.72), color=COLOURS["fair"], linewidth=0)
    axes.set_yticks(range(len(lanes)), lanes)
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    axes.grid(visible=False)


# ---- use of the machine

_USE = (("CPU, all that runs", "machine_cpu", "muted"), ("CPU, this run", "cpu", "first"), ("GPU", "gpu", "second"))


def _use(report: Report) -> Picture:
    figures = report.run.figures
    told = [f"CPU {share(figures.cpu)} on average"] if figures.cpu is not None else []
    told += [f"GPU {share(figures.gpu)}"] if figures.gpu is not None else []
    return _picture("use", "Use of CPU and GPU", f"{', '.join(told)}.", lambda width: _use_figure(report, width))


def _use_figure(report: Report, width: float) -> Figure:
    from matplotlib.figure import Figure

    unit, samples, most = unit_of(report.log.seconds), report.log.samples, round(_DENSITY * width)
    figure = Figure(figsize=(width, 3.0), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(1.6, 1))
    for label, name, colour in _USE:
        points = thinned(readings(samples, name, 100), _mean, most)
        if points:
            upper.plot(*_xy(points, unit), label=label, color=COLOURS[colour])
    upper.set_ylim(0, 105)
    upper.set_title("% in use")
    rows = (thinned(readings(samples, name), max, most) for name in ("live", "rows"))
    for label, points, colour in zip(("at work", "allowed"), rows, ("first", "muted"), strict=True):
        if points:
            style = "--" if label == "allowed" else "-"
            steps = lower.step(*_xy(points, unit), where="post", label=f"rows {label}", linestyle=style)
            steps[0].set_color(COLOURS[colour])
    lower.set_ylim(bottom=0)
    lower.set_title("rows in the batch")
    lower.set_xlabel(f"{unit.name} since the run began")
    lower.set_xlim(0, max(report.log.seconds / unit.seconds, 1e-9))
    figure.legend(loc="outside upper right", ncols=2 if width < WIDE else 5)
    return figure


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _xy(points: Sequence[Point], unit: Unit) -> tuple[list[float], list[float]]:
    return [at / unit.seconds for at, _ in points], [value for _, value in points]


# ---- run by run

_PANELS: tuple[tuple[str, Callable[[Run], float | None], str], ...] = (
    ("RTFx", lambda run: run.figures.rtfx, "first"),
    ("a window, p95, seconds", lambda run: run.figures.p95, "first"),
    ("failed files", lambda run: float(run.figures.failed) if run.figures.known else None, "bad"),
    ("peak memory, GB", lambda run: run.figures.peak_bytes and run.figures.peak_bytes / _GB, "first"),
)


def marks(report: Report) -> dict[str, str]:
    """The runs before which something was changed -> the letter that marks it in the picture."""
    changed = dict.fromkeys(change.run for change in report.changes)
    return {run: _letter(place) for place, run in enumerate(changed)}


def _letter(place: int) -> str:
    """a, b ... z, aa, ab ..."""
    before = _letter(place // 26 - 1) if place >= 26 else ""
    return before + chr(ord("a") + place % 26)


def _trend(report: Report) -> Picture:
    runs = len(report.earlier) + 1
    text = f"Speed, latency, failures and peak memory of {runs} runs, this one last."
    changed = f" Something was changed before {len(marks(report))} of them." if report.changes else ""
    return _picture("trend", "Run by run", text + changed, lambda width: _trend_figure(report, width))


def _trend_figure(report: Report, width: float) -> Figure:
    from matplotlib.figure import Figure

    runs, wide = [*report.earlier, report.run], width == WIDE
    shape = (2, 2) if wide else (4, 1)
    figure = Figure(figsize=(width, 1.55 * shape[0] + 0.3), layout="constrained")
    places = {run.id: place for place, run in enumerate(runs)}
    lines = {places[run]: letter for run, letter in marks(report).items()}
    for axes, (title, figure_of, colour) in zip(figure.subplots(*shape).flat, _PANELS, strict=True):
        points = [(place, value) for place, run in enumerate(runs) if (value := figure_of(run)) is not None]
        _panel(axes, points, colour, len(runs) - 1, bars=title.startswith("failed"))
        axes.set_title(title)
        _changed(axes, lines)
        _dates(axes, runs, 4 if wide else 3)
    return figure


def _panel(axes: Axes, points: Sequence[tuple[int, float]], colour: str, last: int, *, bars: bool) -> None:
    """A line of dots, or bars; this run's is the full one."""
    places, values = [place for place, _ in points], [value for _, value in points]
    if bars:
        for place, value in points:
            axes.bar(place, value, color=COLOURS[colour], width=0.7, alpha=1.0 if place == last else 0.5, linewidth=0)
    else:
        dots = "o" if last < 30 else ""
        axes.plot(places, values, color=COLOURS[colour], marker=dots, markersize=3.5, markerfacecolor=COLOURS["paper"])
        if points and places[-1] == last:
            axes.plot(last, values[-1], "o", color=COLOURS[colour], markersize=6)
    axes.set_ylim(0, max(values, default=0) * 1.12 or 1)
    axes.set_xlim(-0.6, last + 0.6)


def _changed(axes: Axes, lines: dict[int, str]) -> None:
    """A line before each run that something was changed for, with its letter."""
    for place, letter in lines.items():
        axes.axvline(place - 0.5, color=COLOURS["muted"], linewidth=0.9, linestyle=":")
        axes.annotate(letter, (place - 0.5, 1), xycoords=("data", "axes fraction"), va="top", ha="left", fontsize=8,
                      xytext=(2, 0), textcoords="offset points", color=COLOURS["ink"])  # fmt: skip


def _dates(axes: Axes, runs: Sequence[Run], most: int) -> None:
    """At most so many dates below the axis, the last run's among them."""
    last = len(runs) - 1
    step = max(1, -(-last // max(1, most - 1)))
    places = sorted({last - step * back for back in range(most) if last - step * back >= 0})
    axes.set_xticks(places, [runs[place].began[5:10] for place in places])
