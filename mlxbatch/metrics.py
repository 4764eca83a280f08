"""What a run took, in the field's figures. Pure: results and readings in, numbers out.

RTFx is audio seconds per wall second: 10 means an hour of audio in six minutes.
"""

from __future__ import annotations

import math
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlxbatch.errors import show
from mlxbatch.types import Done, Failed, Readings, Result, Skipped, Span


def percentile(values: Sequence[float], share: float) -> float | None:
    """The `share` (0 to 100) percentile by linear interpolation between ranks, numpy's "linear"; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    rank = (len(ordered) - 1) * share / 100
    low = math.floor(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


def percentiles(values: Iterable[float]) -> dict[str, float | None]:
    """{"p50": ..., "p95": ..., "p99": ...}, by linear interpolation."""
    ordered = sorted(values)
    return {f"p{share}": percentile(ordered, share) for share in (50, 95, 99)}


def rtfx(audio_seconds: float, wall_seconds: float) -> float | None:
    """Audio seconds per wall second; None where no time has passed, or there was no audio: that is no speed."""
    return audio_seconds / wall_seconds if audio_seconds > 0 and wall_seconds > 0 else None


def step_taken(facts: Mapping[str, Any]) -> str:
    """What a "governor" event counts as: its step, or "cache" where the cache was given back and the step stayed."""
    step = str(facts.get("step"))
    return "cache" if facts.get("why") == "cache" and facts.get("was", step) == step else step


def on_device(span: Span) -> bool:
    """Whether a span is the device's own work: the others run on the CPU beside it."""
    return span.stage not in ("features", "vad")


@dataclass(slots=True)
class Busy:
    """Seconds in which at least one span was at work, of spans in the order in which they begin; none is kept.

    `wait_fraction` is the share of the time from the first span's begin to the last one's end in which none was: 0 to
    1, of the device's spans the share that the device waited for input. None where no time has passed.
    """

    seconds: float = 0.0
    _first: float | None = None
    _end: float = -math.inf

    def add(self, span: Span) -> None:
        self._first = span.begin if self._first is None else self._first
        self.seconds += max(0.0, span.end - max(span.begin, self._end))
        self._end = max(self._end, span.end)

    @property
    def wait_fraction(self) -> float | None:
        window = self._end - self._first if self._first is not None else 0.0
        return max(0.0, 1.0 - self.seconds / window) if window > 0 else None


def busy(spans: Iterable[Span]) -> Busy:
    """All of them together, in whatever order they are."""
    found = Busy()
    for span in sorted(spans, key=lambda span: span.begin):
        found.add(span)
    return found


@dataclass(slots=True)
class Mean:
    """The mean of what is added; None is a reading that could not be taken, and does not count."""

    total: float = 0.0
    count: int = 0

    def add(self, value: float | None) -> None:
        if value is not None:
            self.total += value
            self.count += 1

    @property
    def value(self) -> float | None:
        return self.total / self.count if self.count else None


@dataclass(slots=True)
class RunStats:
    """A run's counters, fed as it goes; the clock starts when it is made and stands still after `stop`.

    `found` is how many items there are, `not_taken` how many files were seen and were not taken, by reason
    (filters.REASONS), `quarantined` how many of the failed ones are passed over from now on, `passed_over` how many of
    the skipped ones were in quarantine already. `children` counts what became of the engine's processes ("died",
    "stalled", "renewed"), `leaks` the times that memory grew, `governor` its steps as `step_taken` names them,
    `overloads` the times that the machine came to be over `--max-load`. `cpu` and `gpu` are the mean shares that were
    busy, 0 to 1. `clock` gives seconds, as time.monotonic does, on which the spans of the readings are too.
    """

    clock: Callable[[], float] = time.monotonic
    found: int = 0
    not_taken: Mapping[str, int] = field(default_factory=dict)
    done: int = 0
    rendered: int = 0
    skipped: int = 0
    failed: int = 0
    quarantined: int = 0
    passed_over: int = 0
    audio_seconds: float = 0.0
    tokens: int = 0
    warnings: int = 0
    peak_bytes: int = 0
    peak_rss: int = 0
    latencies: array[float] = field(default_factory=lambda: array("d"))
    device: Busy = field(default_factory=Busy)
    stages: dict[str, Busy] = field(default_factory=dict)
    failures: list[Failed] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    governor: Counter[str] = field(default_factory=Counter)
    governor_step: str = "open"
    children: Counter[str] = field(default_factory=Counter)
    leaks: int = 0
    overloads: int = 0
    cpu: Mean = field(default_factory=Mean)
    gpu: Mean = field(default_factory=Mean)
    _begin: float = field(init=False)
    _end: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._begin = self.clock()

    def add(self, result: Result) -> None:
        """Count one item's outcome; the seconds of a Done are its recording's.

        A Done without windows was rendered from a stored result: it is done, but its audio was not worked on.
        """
        match result:
            case Done():
                self.done += 1
                self.rendered += not result.windows
                self.audio_seconds += result.seconds if result.windows else 0.0
                self.warnings += len(result.warnings)
                self.latencies.extend(window.latency for window in result.windows)
                self.tokens += sum(window.tokens for window in result.windows)
            case Failed():
                self.failed += 1
                self.quarantined += result.quarantined
                self.failures.append(result)
            case Skipped():
                self.skipped += 1
                self.passed_over += result.quarantined
                self.reasons[result.why] += 1

    def read(self, readings: Readings) -> None:
        """Take the readings that came with a reply of the device's host."""
        self.peak_bytes = max(self.peak_bytes, readings.peak)
        self.peak_rss = max(self.peak_rss, readings.rss)
        # A span of "features" lasts until its window is taken, waiting included: it says when work began, not how long
        # it took, so it belongs in the log and not in these sums.
        for span in readings.spans:
            if span.stage != "features":
                self.stages.setdefault(span.stage, Busy()).add(span)
            if on_device(span):
                self.device.add(span)

    def event(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Take an event of the run (see runlog): what happens is counted, a sample's shares averaged."""
        match kind:
            case "governor":
                self.governor_step = str(facts["step"])
                self.governor[step_taken(facts)] += 1
            case "load":
                self.overloads += bool(facts["busy"])
            case "child":
                self.children[str(facts["what"])] += 1
            case "leak":
                self.leaks += 1
            case "sample":
                self.cpu.add(facts.get("cpu"))
                self.gpu.add(facts.get("gpu"))
                self.peak_rss = max(self.peak_rss, facts.get("rss") or 0)

    def stop(self) -> None:
        """Stop the clock: what comes after, such as printing the table, is not the run's time."""
        self._end = self.clock()

    @property
    def wall_seconds(self) -> float:
        return (self.clock() if self._end is None else self._end) - self._begin

    @property
    def left(self) -> int:
        """Items that were found, and neither done, failed nor skipped when the run ended: it was stopped before."""
        return max(0, self.found - self.done - self.failed - self.skipped)

    def summary(self) -> dict[str, Any]:
        """Everything, as what json.dumps takes: counts, seconds, bytes; None where there is nothing to measure."""
        return {
            "done": self.done,
            "rendered": self.rendered,
            "skipped": self.skipped,
            "failed": self.failed,
            "quarantined": self.quarantined,
            "passed_over": self.passed_over,
            "left": self.left,
            "not_taken": dict(self.not_taken),
            "warnings": self.warnings,
            "audio_seconds": self.audio_seconds,
            "wall_seconds": self.wall_seconds,
            "rtfx": rtfx(self.audio_seconds, self.wall_seconds),
            "windows": len(self.latencies),
            "tokens": self.tokens,
            "window_latency_seconds": percentiles(self.latencies),
            "peak_bytes": self.peak_bytes,
            "peak_rss_bytes": self.peak_rss,
            "wait_fraction": self.device.wait_fraction,
            # Stages overlap, so they need not add up to the wall time.
            "stage_seconds": {stage: busy.seconds for stage, busy in self.stages.items()},
            "skip_reasons": dict(self.reasons.most_common()),
            "failures": [_failure(failed) for failed in self.failures],
            "utilisation": {"cpu": self.cpu.value, "gpu": self.gpu.value},
            "governor": dict(self.governor),
            "overloads": self.overloads,
            "deaths": self.children["died"],
            "stalls": self.children["stalled"],
            "renewals": self.children["renewed"],
            "leaks": self.leaks,
        }


def _failure(failed: Failed) -> dict[str, str]:
    return {"path": show(failed.item.source), "stage": failed.stage, "error": failed.error}
