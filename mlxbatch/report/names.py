"""The names that a `--fail-if` condition may use, and what they stand for in a run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from mlxbatch.report.compare import Against
from mlxbatch.report.run import Run
from mlxbatch.words import elapsed, share, size

Kind = Literal["count", "ratio", "share", "bytes", "seconds"]


@dataclass(frozen=True, slots=True)
class Name:
    """What a name stands for: a run's figure, its kind, which says what units its values may have, and its meaning.

    `part`: a number of files, and so a share of them, too.
    """

    figure: str
    kind: Kind
    meaning: str
    part: bool = False


NAMES = {
    "items": Name("items", "count", "files in all: done, failed, skipped and left"),
    "worked": Name("worked", "count", "files that there was something to do for: done, failed and left"),
    "done": Name("done", "count", "files done in this run", part=True),
    "failed": Name("failed", "count", "files that failed in this run", part=True),
    "skipped": Name("skipped", "count", "files passed over: done before, or quarantined", part=True),
    "quarantined": Name("quarantined", "count", "files that ended the engine's process, now or before", part=True),
    "left": Name("left", "count", "files not begun or not finished, for the next run", part=True),
    "warnings": Name("warnings", "count", "warnings about files that were done"),
    "killed": Name("killed", "count", "1 where the run was killed: it has no end, and does not go on"),
    "stopped": Name("stopped", "count", "1 where an error or a signal ended the run; the time limit is none"),
    "deaths": Name("deaths", "count", "times that the engine's process died"),
    "stalls": Name("stalls", "count", "times that the engine's process stood still and was replaced"),
    "leaks": Name(
        "leaks", "count", "times that memory grew, or was more than in earlier runs, beyond the profile's bound"
    ),
    "rtfx": Name("rtfx", "ratio", "audio seconds per wall second"),
    "rtfx_ratio": Name("rtfx", "ratio", "rtfx / its median in comparable earlier runs"),
    "p95_ratio": Name("p95", "ratio", "p95 / its median in comparable earlier runs"),
    "peak_ratio": Name("peak_bytes", "ratio", "peak / its median in comparable earlier runs"),
    "p50": Name("p50", "seconds", "median seconds per window"),
    "p95": Name("p95", "seconds", "95th percentile of the seconds per window"),
    "p99": Name("p99", "seconds", "99th percentile of the seconds per window"),
    "wall": Name("wall_seconds", "seconds", "how long the run took"),
    "age": Name("age", "seconds", "time since the run began, as of now"),
    "audio": Name("audio_seconds", "seconds", "how much audio was worked on"),
    "peak": Name("peak_bytes", "bytes", "peak memory on the device"),
    "rss": Name("peak_rss_bytes", "bytes", "peak resident memory of the engine's process"),
    "cpu": Name("cpu", "share", "mean use of all CPU cores by the run, 0 to 1"),
    "gpu": Name("gpu", "share", "mean use of the GPU, 0 to 1; not known on a CPU"),
    "wait": Name("wait_fraction", "share", "share of the time in which the device had nothing to do, 0 to 1"),
    "padding": Name("padding_ratio", "share", "share of the planned audio that is padding, 0 to 1"),
}
_OF_ALL = ("skipped", "quarantined")


def values(run: Run, against: Mapping[str, Against], now: datetime) -> dict[str, float | None]:
    """Each name's figure, at a time that has a time zone; None is what is not known of this run."""
    age = _age(run, now)
    return {name: age if name == "age" else _value(name, what, run, against) for name, what in NAMES.items()}


def _age(run: Run, now: datetime) -> float | None:
    try:
        return (now - datetime.fromisoformat(run.began)).total_seconds()
    except (ValueError, TypeError):  # no time, or one without a zone
        return None


def _value(name: str, what: Name, run: Run, against: Mapping[str, Against]) -> float | None:
    if name in ("killed", "stopped"):
        return None if run.state == "unknown" else float(run.state == name)
    if name.endswith("_ratio"):
        return against[what.figure].ratio if what.figure in against else None
    found = getattr(run.figures, what.figure)
    return None if found is None or not run.figures.known else float(found)


def whole_of(name: str) -> str:
    """What a count's percentage is of: all files, or for what only a file that was worked on can be, those.

    In a tree that grows, where most files were done in earlier runs, one in a hundred of all would be every new one.
    """
    return "items" if name in _OF_ALL else "worked"


def told(name: str, values: Mapping[str, float | None]) -> str:
    """ "failed is 41 of 3,000, 1.4 %": a name's figure as people read it."""
    value, whole = values[name], values[whole_of(name)]
    if value is None:
        return f"{name} is not known"
    match NAMES[name].kind:
        case "count":
            of = f" of {whole:,.0f}, {share(value / whole)}" if whole and value and NAMES[name].part else ""
            return f"{name} is {value:,.0f}{of}"
        case "bytes":
            return f"{name} is {size(round(value))}"
        case "share":
            return f"{name} is {share(value)}"
        case "seconds":
            return f"{name} is {value:.2f} s" if abs(value) < 60 else f"{name} is {elapsed(value)}"
    return f"{name} is {value:.2f}"
