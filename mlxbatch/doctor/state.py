"""What earlier runs left under the output root: the lock and the ledger."""

from __future__ import annotations

import os
from collections.abc import Iterator

from mlxbatch.doctor.finding import Case, Finding
from mlxbatch.errors import LedgerError, LockedError, show
from mlxbatch.ledger_file import FILE, check_file, way_out
from mlxbatch.lock import standing
from mlxbatch.state import FOLDER


def check_lock(case: Case) -> Iterator[Finding]:
    if case.output is None:
        what = "no output directory was named: its lock, ledger and disk were not looked at"
        yield Finding("note", "lock", what, "mlxbatch doctor OUT")
        return
    root, found = show(case.output), standing(case.output)
    match found.state:
        case "free":
            yield Finding("ok", "lock", f"nobody works on {root}")
        case "alive":
            remedy = "wait for it to end, or stop it: until then another run is refused (exit code 4)"
            yield Finding("note", "lock", f"{root} is in use by {found.holder}", remedy)
        case "dead":
            what = f"{root}: stale lock of {found.holder}, which has ended as far as this system can tell"
            yield Finding("ok", "lock", f"{what}; the next run takes it over")
        case "elsewhere":
            what = f"{root} is held by {found.holder}, another host, so a run here is refused"
            yield Finding("problem", "lock", what, "if that run has ended: run with --break-lock once")
        case "unreadable":
            what = f"{root}: the lock's holder cannot be read, so a run is refused"
            yield Finding("problem", "lock", what, "if nobody works on it: run with --break-lock once")


def check_ledger(case: Case) -> Iterator[Finding]:
    if case.output is None:
        return
    path = case.output / FOLDER / FILE
    if not os.path.exists(path):  # noqa: PTH110 - Path's own raises where the directory may not be searched
        yield Finding("ok", "ledger", f"none in {show(case.output)} yet: the first run begins one")
        return
    try:
        items = check_file(path)
    except LedgerError as error:
        yield Finding("problem", "ledger", str(error).removesuffix(f": {way_out(path)}"), way_out(path))
    except LockedError as error:
        yield Finding("note", "ledger", str(error), "ask again when the run has ended")
    else:
        yield Finding("ok", "ledger", f"{show(path)} is whole, items: {items}")
