"""A run's figures for Prometheus, in a file that node_exporter's textfile collector reads (`*.prom`).

All of it is of the last run, so all are gauges that stand until the next one; only the window latencies are a
histogram. Each series has the labels `task` and `output`: files of several jobs may lie in one folder, where two equal
series would be refused. Names and units follow https://prometheus.io/docs/practices/naming.

A run succeeded when its exit code is 0. The time of the last success stays in the file while later runs fail; 0 says
that none is known of, so that an alert on its age holds for a job that never worked.
"""

from __future__ import annotations

import errno
import math
import os
import tempfile
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from mlxbatch.errors import SetupError, show
from mlxbatch.governor import Step
from mlxbatch.metrics import RunStats, rtfx

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric

INFO = ("engine", "model", "model_sha", "profile", "version")
STEPS: tuple[Step, ...] = get_args(Step)
# What is counted beside them: the cache is given back while the step stays.
COUNTED = (*STEPS, "cache")
# Upper bounds in seconds: a window takes a fraction of a second on a GPU and up to a minute in a batch on a CPU.
LATENCY_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0)
LAST_SUCCESS = "mlxbatch_last_success_timestamp_seconds"


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that is over: `at` is when, in seconds since 1970; `info` says what ran, by the names in INFO."""

    task: str
    output: str
    exit_code: int
    at: float
    info: Mapping[str, str] = field(default_factory=dict)

    @property
    def labels(self) -> dict[str, str]:
        """What tells the series of one job from another's."""
        return {"output": self.output, "task": self.task}


def registry(ended: Ended, stats: RunStats, before: float = 0.0) -> CollectorRegistry:
    """The run as metrics; `before` is when one last succeeded before it. Nothing is read from process or clock."""
    from prometheus_client import CollectorRegistry

    made = CollectorRegistry(auto_describe=False)
    made.register(_Run(ended, stats, before))
    return made


class _Run:
    """A collector, in prometheus-client's sense, of one run."""

    def __init__(self, ended: Ended, stats: RunStats, before: float) -> None:
        self.ended, self.stats = ended, stats
        self.success = ended.at if ended.exit_code == 0 else before

    def collect(self) -> Iterator[Metric]:
        yield from self._end()
        yield from self._work()
        yield from self._memory()

    def _end(self) -> Iterator[Metric]:
        ended = self.ended
        what = {name: ended.info.get(name, "") for name in INFO}
        yield self._gauge("mlxbatch_run_info", "What the last run was made of.", [(what, 1)])
        yield self._one("mlxbatch_last_run_timestamp_seconds", "When the last run ended.", ended.at)
        yield self._one(LAST_SUCCESS, "When the last run with exit code 0 ended; 0: not known of any.", self.success)
        yield self._one("mlxbatch_last_run_exit_code", "The exit code of the last run.", ended.exit_code)

    def _work(self) -> Iterator[Metric]:
        stats, run = self.stats, "mlxbatch_last_run"
        items = [({"outcome": outcome}, count) for outcome, count in outcomes(stats).items()]
        yield self._gauge(f"{run}_items", "Items of the last run by what became of them.", items)
        yield self._one(f"{run}_warnings", "Warnings about items that were done.", stats.warnings)
        yield self._one(f"{run}_audio_seconds", "Audio that went through the model.", stats.audio_seconds)
        yield self._one(f"{run}_wall_seconds", "How long the last run took.", stats.wall_seconds)
        speed = rtfx(stats.audio_seconds, stats.wall_seconds)
        if speed is not None:  # a night with nothing to do was not slow
            yield self._one(f"{run}_rtfx", "Audio seconds per wall second of the last run.", speed)
        yield self._latency(f"{run}_window_latency_seconds", "From a window's entering a batch to its leaving it.")

    def _memory(self) -> Iterator[Metric]:
        stats, run = self.stats, "mlxbatch_last_run"
        peaks = [({"of": "device"}, stats.peak_bytes), ({"of": "process"}, stats.peak_rss)]
        yield self._gauge(f"{run}_peak_memory_bytes", "Most memory on the device, and of its process.", peaks)
        means = {"cpu": stats.cpu.value, "gpu": stats.gpu.value}
        shares = [({"of": name}, mean) for name, mean in means.items() if mean is not None]
        yield self._gauge(f"{run}_utilisation_ratio", "Mean share that was busy, 0 to 1.", shares)
        steps = [({"step": step}, stats.governor[step]) for step in COUNTED]
        yield self._gauge(f"{run}_governor_steps", "How often the memory governor took each step.", steps)
        state = [({"step": step}, step == stats.governor_step) for step in STEPS]
        yield self._gauge(f"{run}_governor_state", "The governor's step when the last run ended: 1.", state)

    def _one(self, name: str, about: str, value: float) -> GaugeMetricFamily:
        return self._gauge(name, about, [({}, value)])

    def _gauge(self, name: str, about: str, samples: Sequence[tuple[Mapping[str, str], float]]) -> GaugeMetricFamily:
        from prometheus_client.core import GaugeMetricFamily

        family = GaugeMetricFamily(name, about)
        for labels, value in samples:
            family.add_sample(name, {**self.ended.labels, **labels}, float(value))
        return family

    def _latency(self, name: str, about: str) -> HistogramMetricFamily:
        from prometheus_client.core import HistogramMetricFamily

        family = HistogramMetricFamily(name, about, labels=list(self.ended.labels))
        family.add_metric(list(self.ended.labels.values()), cumulative(self.stats.latencies), sum(self.stats.latencies))
        return family


def outcomes(stats: RunStats) -> dict[str, int]:
    """Each item of a run once, by what became of it."""
    return {
        "done": stats.done,
        "failed": stats.failed - stats.quarantined,
        "quarantined": stats.quarantined + stats.passed_over,
        "skipped": stats.skipped - stats.passed_over,
        "left": stats.left,
    }


def cumulative(latencies: Sequence[float]) -> list[tuple[str, float]]:
    """(upper bound, how many are at most that), as a histogram's buckets are, the last one without bound."""
    placed = [0] * (len(LATENCY_BOUNDS) + 1)
    for value in latencies:
        placed[bisect_left(LATENCY_BOUNDS, value)] += 1
    names = [*map(str, LATENCY_BOUNDS), "+Inf"]
    return [(name, float(sum(placed[: place + 1]))) for place, name in enumerate(names)]


# --- the file --------------------------------------------------------------------------------------------------------


def check_writable(path: Path) -> None:
    """Before a run: SetupError where its metrics could not be written at its end."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        # A file of its own is made beside it and renamed, so the folder is what has to be writable.
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name[:40]}."):
            pass
    except OSError as error:
        raise _unwritable(path, error) from error


def write(path: Path, ended: Ended, stats: RunStats) -> None:
    """Write the run's metrics by rename, over those of the one before; SetupError where that cannot be done."""
    from prometheus_client import write_to_textfile

    try:
        write_to_textfile(os.fspath(path), registry(ended, stats, last_success(path, ended.labels)))
    except OSError as error:
        raise _unwritable(path, error) from error


def last_success(path: Path, labels: Mapping[str, str]) -> float:
    """When the run last succeeded that has these labels, by the file of an earlier one; 0 where it does not say."""
    from prometheus_client.parser import text_string_to_metric_families

    try:
        families = list(text_string_to_metric_families(path.read_text("utf-8")))
    except (OSError, ValueError):  # not there yet, or no such file at all: this run's replaces it
        return 0.0
    samples = [sample for family in families for sample in family.samples if sample.name == LAST_SUCCESS]
    times = [sample.value for sample in samples if sample.labels == labels]
    return max((time for time in times if math.isfinite(time)), default=0.0)


def _unwritable(path: Path, error: OSError) -> SetupError:
    return SetupError(f"cannot write the metrics file {show(path)}: {error.strerror or error}")
