"""What happens in a run, in one line each: outcomes, and the events of governor, child and leak watch. Pure.

Facts are those of the run's log (mlxbatch.runlog); what is missing of them is left out of the sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mlxbatch.cli.log import Level
from mlxbatch.errors import show
from mlxbatch.leak_words import leak_line
from mlxbatch.types import Done, Failed, Result, Skipped
from mlxbatch.words import clock, elapsed, files, size

Facts = Mapping[str, Any]


def result_line(result: Result) -> str:
    """One outcome on one line."""
    source = show(result.item.source)
    match result:
        case Done():
            notes = "".join(f"; {warning}" for warning in result.warnings)
            return f"done: {source} ({clock(result.seconds)}){notes}"
        case Failed():
            after = "; passed over from now on, until it changes" if result.quarantined else ""
            return f"failed: {source}: {result.stage}: {show(result.error)}{after}"
        case Skipped():
            return f"skipped: {source}: {result.why}"


def result_level(result: Result, *, verbose: bool) -> Level:
    """A file that is done without a warning is worth a line only to those who asked for it."""
    match result:
        case Failed():
            return "error"
        case Done() if result.warnings:
            return "warning"
    return "info" if verbose else "debug"


def event_line(kind: str, facts: Facts) -> tuple[Level, str] | None:
    """An event's level and sentence; None for one that people are not told of."""
    writer = _WRITERS.get(kind)
    return writer(facts) if writer else None


def _governor(facts: Facts) -> tuple[Level, str]:
    if facts.get("why") == "cache":
        return "warning", f"{_memory(facts)}the cache is cleared"
    step = str(facts.get("step"))
    action = _STEPS[step](facts) if step in _STEPS else f"the governor goes to {step!r}"
    why = f" ({facts['why']})" if facts.get("why") not in (None, "memory") else ""
    return "warning", f"{_memory(facts)}{action}{why}"


def _memory(facts: Facts) -> str:
    share, limit = facts.get("share"), facts.get("limit")
    if share is None:
        return ""
    return f"memory {_percent(share)} of {size(limit)}: " if limit else f"memory {_percent(share)}: "


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _shrink(facts: Facts) -> str:
    return f"live rows halved{_rows(facts)}"


def _slow(facts: Facts) -> str:
    return f"windows take too long, fewer rows{_rows(facts)}"


def _rows(facts: Facts) -> str:
    """ ", 8 -> 4" """
    live, rows = facts.get("live"), facts.get("rows")
    if rows is None:
        return ""
    return f", {live} -> {rows}" if live is not None and live > rows else f", at most {rows}"


_STEPS: dict[str, Callable[[Facts], str]] = {
    "open": lambda facts: f"back to normal{_rows(facts)}{' rows' if facts.get('rows') is not None else ''}",
    "hold": lambda facts: "new work waits",
    "slow": _slow,
    "shrink": _shrink,
    "fallback": lambda facts: "the smaller model takes over",
    "reclaim": lambda facts: "the cache is cleared, and nothing new is taken on",
    "refuse": lambda facts: "the run ends, as --on-pressure refuse asks for",
}


def _load(facts: Facts) -> tuple[Level, str]:
    load, most = facts.get("load"), facts.get("max_load")
    over = "over" if facts.get("busy") else "no longer over"
    why = f" (load average {load:.2f} is {over} {most:g})" if load is not None and most is not None else ""
    if facts.get("busy"):
        return "warning", f"the machine is busy, new work waits{why}"
    return "info", f"the machine is less busy, new work goes on{why}"


def _child(facts: Facts) -> tuple[Level, str]:
    what, cause = facts.get("what"), f" ({facts['cause']})" if facts.get("cause") else ""
    match what:
        case "died":
            return "warning", f"the engine's process died{cause}; another is started"
        case "stalled":
            return "warning", f"the engine's process made no progress{cause}; another is started"
        case "renewed":
            return "warning", f"the engine's process is renewed{cause}"
    return "debug", f"the engine's process: {what}{cause}"


def _switch(facts: Facts) -> tuple[Level, str]:
    models = ", ".join(str(name) for name in facts.get("models", ())) or "none"
    return "debug", (
        f"models on the device: {models} ({size(facts.get('bytes', 0))}); {facts.get('loads', 0)} loaded, "
        f"{facts.get('evictions', 0)} left so far"
    )


def _leak(facts: Facts) -> tuple[Level, str]:
    return "warning", leak_line(facts)


def _group(facts: Facts) -> tuple[Level, str]:
    took = facts.get("took", 0.0)
    held = f", {size(facts['active'])} held after it" if facts.get("active") is not None else ""
    return (
        "debug",
        f"group {facts.get('group', 0)} is done: {files(facts.get('items', 0))} in {elapsed(took)}{held}",
    )


def _sample(facts: Facts) -> tuple[Level, str]:
    parts = [f"{name} {size(facts[name])}" for name in ("active", "cache", "rss", "available") if facts.get(name)]
    parts += [f"{name} {_percent(facts[name])}" for name in ("share", "cpu", "gpu") if facts.get(name) is not None]
    parts += [f"load {facts['load']:.1f}"] if facts.get("load") is not None else []
    parts += [f"rows {facts['live']} of {facts.get('rows')}"] if facts.get("live") is not None else []
    return "debug", f"sample: {', '.join(parts)}"


_WRITERS: dict[str, Callable[[Facts], tuple[Level, str]]] = {
    "governor": _governor,
    "load": _load,
    "child": _child,
    "switch": _switch,
    "leak": _leak,
    "group": _group,
    "sample": _sample,
}
