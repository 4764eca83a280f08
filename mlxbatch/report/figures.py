"""What one run came to, in figures: of its summary where it has ended, else of its log as far as that goes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlxbatch.metrics import busy, on_device, rtfx, step_taken
from mlxbatch.report.log import Facts, Log, number

_COUNTS = ("done", "rendered", "failed", "skipped", "warnings")
# What became of the engine's processes, by the word that the log has for it.
_CHILDREN = {"deaths": "died", "stalls": "stalled", "renewals": "renewed"}


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts of files, seconds, bytes, shares from 0 to 1; None is what is not known of this run.

    `items` = done + failed + skipped + left. `quarantined` files are among the failed where this run gave them up, and
    among the skipped where it passed them over. `left` were not begun, or not finished. p50 to p99 are seconds per
    window. `cpu` and `gpu` are means over the samples: of all cores by the run, and of the GPU. `overloads` is how
    often the machine came to be over `--max-load`. Where nothing is `known`, neither a summary nor a log being left,
    the zeros say nothing.
    """

    known: bool = True
    done: int = 0
    rendered: int = 0
    failed: int = 0
    quarantined: int = 0
    skipped: int = 0
    left: int | None = 0
    warnings: int = 0
    windows: int | None = None
    tokens: int | None = None
    audio_seconds: float | None = None
    wall_seconds: float | None = None
    rtfx: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    peak_bytes: float | None = None
    peak_rss_bytes: float | None = None
    cpu: float | None = None
    cpu_max: float | None = None
    gpu: float | None = None
    gpu_max: float | None = None
    padding_ratio: float | None = None
    wait_fraction: float | None = None
    deaths: int | None = None
    stalls: int | None = None
    renewals: int | None = None
    leaks: int | None = None
    overloads: int | None = None
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    governor: Mapping[str, int] = field(default_factory=dict)
    skip_reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def items(self) -> int | None:
        return None if self.worked is None else self.worked + self.skipped

    @property
    def worked(self) -> int | None:
        """Files that there was something to do for."""
        return None if self.left is None else self.done + self.failed + self.left


def figures(summary: Facts, log: Log | None, found: float | None = None) -> Figures:
    """The figures of a run that `found` so many files; `summary` is what it wrote at its end, empty without an end."""
    events = log if log is not None else Log()
    counted = summary or _counted(events)
    return Figures(
        known=bool(summary) or log is not None,
        quarantined=_quarantined(summary, events),
        left=int(number(summary, "left") or 0) if summary else _left(events, found),
        windows=_whole(counted, "windows"),
        tokens=_whole(counted, "tokens"),
        peak_bytes=_peak(summary, events, "peak_bytes", "peak"),
        peak_rss_bytes=_peak(summary, events, "peak_rss_bytes", "rss"),
        # Of the first plan, which has all the work: another has what was left when the smaller model took over.
        padding_ratio=number(events.plans[0], "padding_ratio") if events.plans else None,
        wait_fraction=number(summary, "wait_fraction") if summary else _waited(events),
        stage_seconds=_numbers(summary, "stage_seconds") if summary else _stages(events),
        governor=_steps(summary, events),
        skip_reasons={why: int(times) for why, times in _numbers(counted, "skip_reasons").items()},
        **_measured(summary, counted),
        **_utilisation(summary, events),
        **_events(summary, log),
    )


def _measured(summary: Facts, counted: Facts) -> dict[str, Any]:
    """What is taken as it was written, under its own name."""
    found: dict[str, Any] = {name: int(number(counted, name) or 0) for name in _COUNTS}
    found |= {name: number(counted, name) for name in ("audio_seconds", "wall_seconds")}
    # 0 is what older versions wrote where there was no audio.
    found |= {"rtfx": number(counted, "rtfx") or None}
    return found | {name: number(summary, "window_latency_seconds", name) for name in ("p50", "p95", "p99")}


def _counted(log: Log) -> dict[str, Any]:
    """A log's items added up, as `RunStats.summary` would."""
    states = Counter(str(item.get("status")) for item in log.items)
    done = [item for item in log.items if item.get("status") == "done"]
    inferred = [item for item in done if number(item, "windows")]
    audio = sum(number(item, "seconds") or 0.0 for item in inferred)
    reasons = Counter(str(item.get("why")) for item in log.items if item.get("status") == "skipped")
    return {
        "done": states["done"],
        "rendered": len(done) - len(inferred),
        "failed": states["failed"],
        "skipped": states["skipped"],
        "warnings": sum(len(found) for item in done if isinstance(found := item.get("warnings"), list)),
        "windows": sum(int(number(item, "windows") or 0) for item in inferred),
        "audio_seconds": audio,
        "wall_seconds": log.seconds or None,
        "rtfx": rtfx(audio, log.seconds),
        "skip_reasons": dict(reasons.most_common()),
    }


def is_quarantined(item: Facts) -> bool:
    """Whether an item's event is of a file that was given up for ending the engine's process, now or before."""
    return item.get("quarantined") is True


def _left(log: Log, found: float | None) -> int | None:
    """Files that never came to an end: of those that were found, in logs that do not say of those that were planned."""
    if found is not None:
        return max(0, int(found) - len(log.items))
    if not log.plans:
        return None
    planned, at = int(number(log.plans[-1], "items") or 0), number(log.plans[-1], "t") or 0.0
    after = [item for item in log.items if (number(item, "t") or 0.0) >= at]
    return max(0, planned - sum(item.get("status") in ("done", "failed") for item in after))


def _quarantined(summary: Facts, log: Log) -> int:
    """Those that were given up in this run, and those that were before."""
    if not summary:
        return sum(map(is_quarantined, log.items))
    return sum(int(number(summary, name) or 0) for name in ("quarantined", "passed_over"))


def _events(summary: Facts, log: Log | None) -> dict[str, Any]:
    """How often something happened: of the summary, in which older versions did not count it, else of the log."""
    found: dict[str, int | None] = dict.fromkeys((*_CHILDREN, "leaks", "overloads"))
    if log is not None:
        children = Counter(str(child.get("what")) for child in log.children)
        found |= {name: children[what] for name, what in _CHILDREN.items()}
        found |= {"leaks": len(log.leaks), "overloads": sum(load.get("busy") is True for load in log.loads)}
    told = {name: count for name in found if (count := _whole(summary, name)) is not None}
    return {**found, **told}


def _whole(facts: Facts, name: str) -> int | None:
    found = number(facts, name)
    return None if found is None else int(found)


def _numbers(facts: Facts, name: str) -> dict[str, float]:
    table = facts.get(name)
    found = {str(key): number(table, key) for key in table} if isinstance(table, Mapping) else {}
    return {key: value for key, value in found.items() if value is not None}


def _waited(log: Log) -> float | None:
    return busy(span for span in log.spans if on_device(span)).wait_fraction


def _stages(log: Log) -> dict[str, float]:
    stages = dict.fromkeys(span.stage for span in log.spans)
    return {stage: busy(span for span in log.spans if span.stage == stage).seconds for stage in stages}


def _peak(summary: Facts, log: Log, name: str, sampled: str) -> float | None:
    """The highest reading; 0 is that of a run which never had an engine, and so is not known."""
    readings = [number(summary, name), *(number(sample, sampled) for sample in log.samples)]
    return max((reading for reading in readings if reading), default=None)


def _utilisation(summary: Facts, log: Log) -> dict[str, Any]:
    """Mean and maximum of the samples; where there are none any more, the mean of the summary."""
    found: dict[str, Any] = {}
    for name in ("cpu", "gpu"):
        values = [value for sample in log.samples if (value := number(sample, name)) is not None]
        found[name] = _mean(values) if values else number(summary, "utilisation", name)
        found[f"{name}_max"] = max(values, default=None)
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _steps(summary: Facts, log: Log) -> dict[str, int]:
    """How often the governor took each step; "open" is no step but the way back."""
    steps = _numbers(summary, "governor") or Counter(map(step_taken, log.governor))
    return {step: int(times) for step, times in steps.items() if step != "open"}
