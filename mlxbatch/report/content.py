"""All that a report tells of one run, gathered once; how it is told is left to text, JSON and page. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlxbatch.report.causes import Cause, causes, failures_of
from mlxbatch.report.compare import Against, Change, against, changes
from mlxbatch.report.figures import is_quarantined
from mlxbatch.report.log import Facts, Log, number, text
from mlxbatch.report.run import History, Run

SLOWEST = 10


@dataclass(frozen=True, slots=True)
class Slow:
    """A file's length, the seconds its windows spent in batches, and `speed`, audio seconds per second of those."""

    source: str
    seconds: float
    took: float

    @property
    def speed(self) -> float:
        return self.seconds / self.took


@dataclass(frozen=True, slots=True)
class Report:
    """One run beside the earlier ones. `limit` is that of its memory in bytes, None where the log tells of none.

    `totals`: files by what became of them in all runs, as the ledger has it now; None without a ledger.
    """

    run: Run
    earlier: tuple[Run, ...]
    holder: str
    causes: tuple[Cause, ...]
    quarantined: tuple[str, ...]
    slowest: tuple[Slow, ...]
    against: Mapping[str, Against]
    changes: tuple[Change, ...]
    limit: float | None
    totals: Mapping[str, int] | None

    @property
    def log(self) -> Log:
        """The run's log; an empty one where it has been removed."""
        return self.run.log if self.run.log is not None else Log()


def make_report(history: History) -> Report:
    run, earlier = history.run, history.earlier
    log = run.log if run.log is not None else Log()
    return Report(
        run=run,
        earlier=earlier,
        holder=str(history.lock.holder or ""),
        causes=causes(failures_of(log.items, run.failures)),
        quarantined=tuple(text(item, "source") for item in log.items if is_quarantined(item)),
        slowest=slowest(log.items),
        against=against(run, earlier),
        changes=tuple(changes([*earlier, run])),
        limit=_limit(log),
        totals=history.totals,
    )


def slowest(items: Sequence[Facts], most: int = SLOWEST) -> tuple[Slow, ...]:
    """The files that took longest; those rendered from stored results were not worked on."""
    found = []
    for item in items:
        seconds, took = number(item, "seconds"), number(item, "took")
        if item.get("status") == "done" and seconds is not None and took:
            found.append(Slow(text(item, "source"), seconds, took))
    return tuple(sorted(found, key=lambda slow: (-slow.took, slow.source))[:most])


def _limit(log: Log) -> float | None:
    """The largest that was told: what the machine has left makes it smaller for a while."""
    told = (number(event, "limit") for event in (*log.samples, *log.governor))
    return max((limit for limit in told if limit), default=None)
