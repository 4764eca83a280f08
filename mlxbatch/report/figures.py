"""What one run came to, in figures: of its summary where it has ended, else of its log as far as that goes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlxbatch.metrics import busy, rtfx
from mlxbatch.report.log import Facts, Log, number

QUARANTINED = "quarantined"
_COUNTS = ("done", "rendered", "failed", "skipped", "left", "warnings")


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts of files, seconds, bytes, shares from 0 to 1; None is what is not known of this run.

    `items` = done + failed + skipped + left. `quarantined` files are among the failed where this run gave them up, and
    among the skipped where it passed them over. `left` were not begun, or not finished. p50 to p99 are seconds per
    window. `cpu` and `gpu` are means over the samples: of all cores by the run, and of the GPU. Where nothing is
    `known`, neither a summary nor a log being left, the zeros say nothing.
    """

    known: bool = True
    done: int = 0
    rendered: int = 0
    failed: int = 0
    quarantined: int = 0
    skipped: int = 0
    left: int = 0
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
    deaths: int = 0
    stalls: int = 0
    renewals: int = 0
    leaks: int = 0
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    governor: Mapping[str, int] = field(default_factory=dict)
    skip_reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def items(self) -> int:
        return self.worked + self.skipped

    @property
    def worked(self) -> int:
        """Files that there was something to do for."""
        return self.done + self.failed + self.left


def figures(summary: Facts, log: Log | None) -> Figures:
    """The figures of a run: `summary` is what it wrote at its end, empty where it has no end."""
    events = log if log is not None else Log()
    counted = summary or _counted(events)
    what = Counter(str(child.get("what")) for child in events.children)
    return Figures(
        known=bool(summary) or log is not None,
        quarantined=_quarantined(summary, events),
        windows=_whole(counted, "windows"),
        tokens=_whole(counted, "tokens"),
        peak_bytes=_peak(summary, events, "peak_bytes", "peak"),
        peak_rss_bytes=_peak(summary, events, "peak_rss_bytes", "rss"),
        padding_ratio=number(events.plan, "padding_ratio"),
        wait_fraction=number(summary, "wait_fraction") if summary else busy(events.spans).wait_fraction,
        stage_seconds=_numbers(summary, "stage_seconds") if summary else _stages(events),
        deaths=what["died"],
        stalls=what["stalled"],
        renewals=what["renewed"],
        leaks=len(events.leaks),
        governor=_steps(summary, events),
        skip_reasons={why: int(times) for why, times in _numbers(counted, "skip_reasons").items()},
        **_measured(summary, counted),
        **_utilisation(summary, events),
    )


def _measured(summary: Facts, counted: Facts) -> dict[str, Any]:
    """What is taken as it was written, under its own name."""
    found: dict[str, Any] = {name: int(number(counted, name) or 0) for name in _COUNTS}
    found |= {name: number(counted, name) for name in ("audio_seconds", "wall_seconds", "rtfx")}
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
        "left": _left(log),
        "warnings": sum(len(found) for item in done if isinstance(found := item.get("warnings"), list)),
        "windows": sum(int(number(item, "windows") or 0) for item in inferred),
        "audio_seconds": audio,
        "wall_seconds": log.seconds or None,
        "rtfx": rtfx(audio, log.seconds) if audio else None,
        "skip_reasons": dict(reasons.most_common()),
    }


def is_quarantined(item: Facts) -> bool:
    """Whether an item's event is of a file that was given up for ending the engine's process, now or before."""
    why = item.get("why")
    return item.get(QUARANTINED) is True or (isinstance(why, str) and why.startswith(QUARANTINED))


def _left(log: Log) -> int:
    """Files that were planned and never came to an end."""
    planned = int(number(log.plan, "items") or 0)
    if log.planned_at is None:
        return planned
    after = [item for item in log.items if (number(item, "t") or 0.0) >= log.planned_at]
    return max(0, planned - sum(item.get("status") in ("done", "failed") for item in after))


def _quarantined(summary: Facts, log: Log) -> int:
    counted = number(summary, QUARANTINED)
    return sum(is_quarantined(item) for item in log.items) if counted is None else int(counted)


def _whole(facts: Facts, name: str) -> int | None:
    found = number(facts, name)
    return None if found is None else int(found)


def _numbers(facts: Facts, name: str) -> dict[str, float]:
    table = facts.get(name)
    found = {str(key): number(table, key) for key in table} if isinstance(table, Mapping) else {}
    return {key: value for key, value in found.items() if value is not None}


def _stages(log: Log) -> dict[str, float]:
    stages = dict.fromkeys(span.stage for span in log.spans)
    return {stage: busy(span for span in log.spans if span.stage == stage).seconds for stage in stages}


def _peak(summary: Facts, log: Log, name: str, sampled: str) -> float | None:
    """The highest reading; 0 is that of a run which never had an engine, and so is not known."""
    readings = [number(summary, name), *(number(sample, sampled) for sample in log.samples)]
    return max((reading for reading in readings if reading), default=None)


def _utilisation(summary: Facts, log: Log) -> dict[str, Any]:
    """Mean and maximum of the samples; of the summary where there are no samples any more."""
    found: dict[str, Any] = {}
    for name in ("cpu", "gpu"):
        values = [value for sample in log.samples if (value := number(sample, name)) is not None]
        found[name] = _mean(values) if values else _summed(summary, name, "mean")
        found[f"{name}_max"] = max(values) if values else _summed(summary, name, "max")
    return found


def _summed(summary: Facts, name: str, kind: str) -> float | None:
    """The summary's `utilisation`: {"cpu": 0.8}, a mean, or {"cpu": {"mean": 0.8, "max": 1.0}}."""
    plain = number(summary, "utilisation", name) if kind == "mean" else None
    return number(summary, "utilisation", name, kind) if plain is None else plain


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _steps(summary: Facts, log: Log) -> dict[str, int]:
    """How often the governor took each step; "open" is no step but the way back."""
    steps = _numbers(summary, "governor") or Counter(str(change.get("step")) for change in log.governor)
    return {step: int(times) for step, times in steps.items() if step != "open"}
