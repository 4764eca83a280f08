"""A run beside the runs before it: ratios to their medians, and what was changed from one to the next. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from mlxbatch.report.log import Facts, text
from mlxbatch.report.run import Run

COMPARED = ("rtfx", "p50", "p95", "p99", "peak_bytes")
# What is watched from run to run, with the name in a run's facts.
WATCHED = {"profile": "profile", "model": "model", "version": "version", "batch size": "batch_size", "dtype": "dtype"}
_SHA = 8


@dataclass(frozen=True, slots=True)
class Against:
    """A figure of this run, and the median of the same in `runs` comparable earlier ones; ratio = value / median."""

    value: float
    median: float
    runs: int

    @property
    def ratio(self) -> float:
        return self.value / self.median


@dataclass(frozen=True, slots=True)
class Change:
    """Something that is not as it was in the run before; `run` is the first with `now`."""

    run: str
    what: str
    was: str
    now: str


def comparable(run: Run, earlier: Sequence[Run]) -> list[Run]:
    """The earlier runs with the same model and profile that came to an end and worked on audio."""
    return [
        other
        for other in earlier
        if other.state in ("finished", "stopped")
        and other.figures.rtfx
        and (model(other.facts), other.facts.get("profile")) == (model(run.facts), run.facts.get("profile"))
    ]


def against(run: Run, earlier: Sequence[Run]) -> dict[str, Against]:
    """The figures that both this run and comparable earlier ones have; zero is no measurement."""
    alike = comparable(run, earlier)
    found = {}
    for name in COMPARED:
        value = getattr(run.figures, name)
        values = [known for other in alike if (known := getattr(other.figures, name))]
        if value and values:
            found[name] = Against(value, statistics.median(values), len(values))
    return found


def changes(runs: Sequence[Run]) -> list[Change]:
    """What was changed between each run and the one before it; what either does not tell of is no change."""
    found = []
    for before, after in pairwise(runs):
        for what in WATCHED:
            was, now = _setting(before.facts, what), _setting(after.facts, what)
            if was and now and was != now:
                found.append(Change(after.id, what, was, now))
    return found


def _setting(facts: Facts, what: str) -> str:
    if what == "model":
        return model(facts)
    value = facts.get(WATCHED[what])
    return text(facts, WATCHED[what]) if isinstance(value, str) else "" if value is None else str(value)


def model(facts: Facts) -> str:
    """The model's name and the beginning of its digest: the same name may hold other weights."""
    digest = text(facts, "sha")[:_SHA]
    name = text(facts, "model")
    return f"{name} ({digest})" if name and digest else name or digest
