"""Runs to report on, written through the real ledger and the real log, with every event that a run may write."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlxbatch.ledger import Ledger
from mlxbatch.metrics import RunStats
from mlxbatch.runlog import RunLog
from mlxbatch.types import Done, Failed, Item, Planned, Probed, Readings, Result, Skipped, Span, WindowStats

SHA = "0123456789abcdef" * 4
LIMIT = 6 * 10**9


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Night:
    """One run. `step` is the time between two files; `end` False leaves it without an end, as a kill does."""

    id: str
    done: int = 8
    seconds: float = 120.0
    step: float = 10.0
    failed: Sequence[tuple[str, str, str]] = ()
    quarantined: Sequence[str] = ()
    skipped: Sequence[tuple[str, str]] = ()
    passed_over: Sequence[str] = ()
    left: int = 0
    peak: float = 4e9
    gpu: float | None = None
    outcome: str = "finished"
    end: bool = True
    governor: Sequence[tuple[float, str, str]] = ()
    children: Sequence[dict[str, Any]] = ()
    leaks: Sequence[dict[str, Any]] = ()
    loads: Sequence[bool] = ()
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def found(self) -> int:
        several = (self.failed, self.quarantined, self.skipped, self.passed_over)
        return self.done + sum(map(len, several)) + self.left

    @property
    def all_facts(self) -> dict[str, Any]:
        known = {"id": self.id, "version": "0.1.0", "command": "mlxbatch transcribe calls -o out", "engine": "whisper"}
        known |= {"profile": "linux-cpu", "model": "whisper-base", "sha": SHA, "python": "3.11.7", "platform": "Linux"}
        return known | {"batch_size": 8, "dtype": "float32", "host": "night", "found": self.found} | self.facts

    def results(self) -> Iterator[Result]:
        for source, why in self.skipped:
            yield Skipped(_item(source), why)
        for source in self.passed_over:
            yield Skipped(_item(source), "quarantined: signal 11", quarantined=True)
        for number in range(self.done):
            length = self.seconds * (1 + number % 5) / 3
            windows = tuple(WindowStats(at * 30.0, 30.0, 90, 1 + 0.1 * (number % 7)) for at in range(4))
            item = _item(f"calls/{number:04d}.wav")
            yield Done(item, (Path("x.txt"),), length, windows, (), took=self.step * (1 + number % 4))
        for source, stage, error in self.failed:
            yield Failed(_item(source), stage, error)
        for source in self.quarantined:
            yield Failed(_item(source), "infer", "the engine's process died (signal 11)", quarantined=True)


def _item(source: str) -> Item:
    return Item(source, Path(source), Path(source))


def write(out: Path, *nights: Night) -> Path:
    """Write the nights, in order, into an output root."""
    for night in nights:
        with Ledger.open(out) as ledger, _log(out, night) as (log, clock):
            log.start(night.all_facts)
            ledger.begin_run(night.id, night.all_facts)
            stats = _work(night, log, clock)
            if night.end:
                summary = {"outcome": night.outcome, **stats.summary()}
                log.end(summary)
                ledger.end_run(night.id, summary)
        _date(out, night.id)
    return out


@contextmanager
def _log(out: Path, night: Night) -> Iterator[tuple[RunLog, Clock]]:
    clock = Clock()
    with RunLog(out, night.id, clock=clock) as log:
        yield log, clock


def _work(night: Night, log: RunLog, clock: Clock) -> RunStats:
    stats = RunStats(clock, found=night.found)
    clock.now = 2.0
    number = night.done + len(night.failed) + len(night.quarantined) + night.left
    planned = [Planned(Probed(_item(str(n)), night.seconds, 8000, 1), n // 8) for n in range(number)]
    log.plan(planned)
    pending = sorted((*((at, "governor", step) for at, *step in night.governor),), key=lambda event: event[0])
    for number, result in enumerate(night.results()):
        begin = clock.now
        clock.now += 0.0 if isinstance(result, Skipped) else night.step
        while pending and pending[0][0] <= clock.now:
            at, _, (step, why) = pending.pop(0)
            _governor(log, clock, at, step, why)
        spans = (Span("encode", begin, begin + night.step * 0.3, 8),)
        spans += (Span("decode", begin + night.step * 0.3, begin + night.step * 0.9, 8),)
        memory = {"active": int(night.peak * 0.8), "peak": int(night.peak), "rss": int(night.peak * 1.15)}
        readings = Readings(**memory, live=8, progress=number, spans=spans)
        stats.read(readings)
        log.spans(readings)
        if not isinstance(result, Skipped):
            _sample(night, log, number)
        stats.add(result)
        log.item(result)
    events = [("child", child) for child in night.children] + [("leak", leak) for leak in night.leaks]
    events += [("load", {"busy": busy, "load": 9.1 if busy else 7.5, "max_load": 8.0}) for busy in night.loads]
    for kind, facts in events:
        stats.event(kind, facts)
        log.event(kind, facts)
    stats.stop()
    return stats


def _governor(log: RunLog, clock: Clock, at: float, step: str, why: str) -> None:
    now, clock.now = clock.now, at
    full = {"open": 0.7, "hold": 0.82, "shrink": 0.91, "reclaim": 0.98}.get(step, 0.86)
    facts = {"step": step, "was": "open", "why": why, "share": full, "used": full * LIMIT, "limit": LIMIT}
    log.event("governor", facts | {"rows": 4, "live": 4, "available": 2 * 10**9, "pressure": "normal"})
    clock.now = now


def _sample(night: Night, log: RunLog, number: int) -> None:
    wave = 0.75 + 0.25 * math.sin(number / 5)
    active = int(night.peak * 0.9 * wave)
    facts = {"active": active, "cache": 10**8, "peak": int(night.peak * wave), "rss": int(night.peak * 1.1 * wave)}
    facts |= {
        "parent_rss": 10**8,
        "available": 2 * 10**9,
        "cpu": 0.5 + 0.4 * wave,
        "machine_cpu": 0.95,
        "gpu": night.gpu,
        "load": 2.0,
    }
    log.event("sample", facts | {"live": 6 + number % 3, "rows": 8, "share": active / LIMIT, "limit": LIMIT})


def _date(out: Path, run_id: str) -> None:
    """Give a run the time that its id says: the ledger and the log write that of the test."""
    import sqlite3
    from contextlib import closing

    at = f"{run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}T{run_id[9:11]}:{run_id[11:13]}:{run_id[13:15]}+00:00"
    with closing(sqlite3.connect(out / ".mlxbatch" / "ledger.sqlite3")) as database, database:
        database.execute("UPDATE runs SET started_at = ? WHERE id = ?", (at, run_id))
        database.execute("UPDATE runs SET ended_at = ? WHERE id = ? AND ended_at IS NOT NULL", (at, run_id))


def night_id(day: int, hour: int = 22) -> str:
    return f"202611{day:02d}T{hour:02d}0000Z-{day:06x}"
