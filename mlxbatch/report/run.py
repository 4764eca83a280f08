"""One run, whatever is left of it: its row in the ledger, its log, or both; and the choice of one among many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from mlxbatch.errors import UsageError, show
from mlxbatch.history import History as LedgerHistory
from mlxbatch.history import RunRow
from mlxbatch.holder import Holder
from mlxbatch.ledger_file import FILE
from mlxbatch.lock import Standing, standing
from mlxbatch.report.figures import Figures, figures
from mlxbatch.report.log import Log, number, parse_log, read_log, text
from mlxbatch.runlog import log_path
from mlxbatch.state import FOLDER
from mlxbatch.words import nearest

# So many runs before the chosen one are looked at: two months of nights.
EARLIER = 60
LATEST = "latest"
_LISTED = 3

State = Literal["finished", "stopped", "killed", "going on", "unknown"]


@dataclass(frozen=True, slots=True)
class Run:
    """What is known of one run.

    `failures` is the list in its summary, `log` None where that has been removed.
    `state`: "finished" came to its end; "stopped" was ended by what `outcome` says; without an end it was "killed", or
    is "going on"; "unknown" where another host holds the lock, so that it may be either.
    """

    id: str
    began: str
    ended: str | None
    state: State
    outcome: str
    facts: Mapping[str, Any]
    figures: Figures
    failures: tuple[Mapping[str, Any], ...] = ()
    log: Log | None = None


@dataclass(frozen=True, slots=True)
class History:
    """The chosen run, the runs before it, oldest first, and who holds the lock on the output root now.

    `totals`: how many files are "done", "failed" and "quarantined" by all runs, as of now; None without a ledger.
    """

    run: Run
    earlier: tuple[Run, ...]
    lock: Standing
    totals: Mapping[str, int] | None = None


def read_history(output_root: Path, wanted: str = LATEST) -> History:
    """The run that is wanted: an id, the unique beginning of one, or "latest"; with the runs before it.

    UsageError: no runs there, or no such run. LedgerError, SetupError: what is there cannot be read.
    """
    # Who holds the lock is asked first: a run that ends meanwhile has its end written by then.
    lock, nobody = standing(output_root), Standing("free")
    rows = all_rows(output_root)
    chosen = choose(wanted, [row.id for row in rows])
    place = next(place for place, row in enumerate(rows) if row.id == chosen)
    last = place == len(rows) - 1
    run = _run(output_root, rows[place], lock if last else nobody, whole=True)
    before = rows[max(0, place - EARLIER) : place]
    earlier = tuple(_run(output_root, row, nobody, whole=False) for row in before)
    return History(run, earlier, lock, ledger_totals(output_root))


def all_rows(output_root: Path) -> list[RunRow]:
    """The ledger's runs, and those that only their log knows of: the ledger may have been moved away, damaged."""
    if not output_root.is_dir():
        raise UsageError(f"no such directory: {show(output_root)}; name the output directory of a run")
    rows = {row.id: row for row in ledger_rows(output_root)}
    logs = sorted((output_root / FOLDER / "runs").glob("*.jsonl"))
    rows |= {path.stem: _row_of(path) for path in logs if path.stem not in rows}
    if not rows:
        raise UsageError(f"no runs in {show(output_root)}: name the output directory of a run (its -o)")
    # Stable: of two runs within a second the ledger knows which was first, their ids do not.
    return sorted(rows.values(), key=lambda row: row.started_at)


def ledger_rows(output_root: Path) -> list[RunRow]:
    """The ledger's runs, in the order in which they began; none where there is no ledger."""
    if not _has_ledger(output_root):
        return []
    with LedgerHistory.open(output_root) as history:
        return history.runs()


def ledger_totals(output_root: Path) -> dict[str, int] | None:
    """How many files the ledger has as "done", "failed" and "quarantined"; None where there is no ledger."""
    if not _has_ledger(output_root):
        return None
    with LedgerHistory.open(output_root) as history:
        return history.status()


def _has_ledger(output_root: Path) -> bool:
    return (output_root / FOLDER / FILE).exists()


def _row_of(path: Path) -> RunRow:
    """What a log's first line says of its run; an id begins with the time, should there be no such line."""
    with path.open("rb") as file:
        start = parse_log([file.readline()]).start
    return RunRow(path.stem, text(start, "at") or _time_of(path.stem), dict(start), None, None)


def _time_of(run_id: str) -> str:
    try:
        return datetime.strptime(run_id[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).isoformat(timespec="seconds")
    except ValueError:
        return ""


def _run(output_root: Path, row: RunRow, lock: Standing, *, whole: bool) -> Run:
    """`whole` reads the log, too; of an earlier run only where the ledger does not have its end."""
    log = read_log(log_path(output_root, row.id)) if whole or not row.outcome else None
    facts = {**(log.start if log is not None else {}), **row.facts}
    summary = row.outcome or (log.end if log is not None else {})
    outcome = text(summary, "outcome")
    return Run(
        id=show(row.id),
        began=show(row.started_at),
        ended=row.ended_at and show(row.ended_at),
        state=_state(row, summary, lock),
        outcome=outcome,
        facts=facts,
        figures=figures(summary, log, number(facts, "found")),
        failures=tuple(entry for entry in _listed_in(summary) if isinstance(entry, Mapping)),
        log=log if whole else None,
    )


def _listed_in(summary: Mapping[str, Any]) -> list[Any]:
    found = summary.get("failures")
    return found if isinstance(found, list) else []


def _state(row: RunRow, summary: Mapping[str, Any], lock: Standing) -> State:
    if summary:
        return "finished" if summary.get("outcome") == "finished" else "stopped"
    if lock.holder is None or lock.state not in ("alive", "elsewhere") or not _from(row, lock.holder):
        return "killed"
    return "going on" if lock.state == "alive" else "unknown"


def _from(row: RunRow, holder: Holder) -> bool:
    """Whether a run may be the holder's: it began after the lock was taken."""
    try:
        return datetime.fromisoformat(holder.started) <= datetime.fromisoformat(row.started_at)
    except (ValueError, TypeError):
        return True


def choose(wanted: str, ids: Sequence[str]) -> str:
    """The id that is wanted among all, which are in the order of time; UsageError names those that are near."""
    if wanted == LATEST:
        return ids[-1]
    if wanted in ids:
        return wanted
    found = [one for one in ids if one.startswith(wanted)] if wanted else []
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"--run {show(wanted)!r} begins {len(found)} runs: {_listed(found)}; write more of it")
    near = nearest(wanted, ids)
    raise UsageError(f"no run {show(wanted)!r}{near} (there are: {_listed(ids)})")


def _listed(ids: Sequence[str]) -> str:
    """The last few: the ones that are asked for."""
    last = [show(one) for one in ids[-_LISTED:]]
    return ", ".join(last) if len(ids) <= _LISTED else f"{', '.join(last)} and {len(ids) - _LISTED} before them"
