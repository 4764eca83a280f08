"""A report as one JSON object, for programs: docs/report.md tells its keys. Pure."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from mlxbatch.report.compare import Against
from mlxbatch.report.content import Report
from mlxbatch.report.log import Facts
from mlxbatch.report.run import Run
from mlxbatch.report.verdict import verdict

# Raised when a key goes or changes its meaning; new keys do not raise it.
SCHEMA = 1


def to_json(report: Report) -> str:
    """Pure ASCII, indented, with a newline at the end."""
    return json.dumps(as_data(report), indent=2) + "\n"


def as_data(report: Report) -> dict[str, Any]:
    """The report as what json.dumps takes."""
    log = report.log
    return {
        "schema": SCHEMA,
        "verdict": verdict(report).sentence,
        "run": _run(report.run) | {"facts": dict(report.run.facts), "log": report.run.log is not None},
        "ledger": None if report.totals is None else dict(report.totals),
        "against_median": {name: _against(found) for name, found in report.against.items()},
        "failures": [dataclasses.asdict(cause) for cause in report.causes],
        "quarantined": list(report.quarantined),
        "slowest": [dataclasses.asdict(slow) | {"speed": slow.speed} for slow in report.slowest],
        "memory_limit_bytes": report.limit,
        "samples": [_event(sample) for sample in log.samples],
        "governor": [_event(step) for step in log.governor],
        "load": [_event(load) for load in log.loads],
        "children": [_event(child) for child in log.children],
        "leaks": [_event(leak) for leak in log.leaks],
        "unreadable_lines": log.unreadable,
        "changes": [dataclasses.asdict(change) for change in report.changes],
        "earlier": [_run(run) for run in report.earlier],
    }


def _run(run: Run) -> dict[str, Any]:
    """A run with its figures; a figure that is not known is null."""
    found = {field.name: getattr(run.figures, field.name) for field in dataclasses.fields(run.figures)}
    figures = {name: dict(value) if isinstance(value, Mapping) else value for name, value in found.items()}
    return {
        "id": run.id,
        "began": run.began,
        "ended": run.ended,
        "state": run.state,
        "outcome": run.outcome,
        "figures": {"items": run.figures.items, **figures},
    }


def _against(found: Against) -> dict[str, float]:
    return {"value": found.value, "median": found.median, "ratio": found.ratio, "runs": found.runs}


def _event(event: Facts) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name != "event"}
