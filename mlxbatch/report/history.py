"""The runs that an output root's ledger knows, read beside whoever is writing it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlxbatch.errors import LedgerError, SetupError, show
from mlxbatch.ledger_file import FILE, SCHEMA_VERSION, file_errors
from mlxbatch.state import FOLDER

_UNREADABLE = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR})
# Where SQLite's file header says how it is journalled, and what it says of a write-ahead log.
_FORMAT, _WAL = 18, b"\2"


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run as the ledger has it. Times are ISO 8601 in UTC; `outcome` is its summary, None without an end."""

    id: str
    started_at: str
    facts: dict[str, Any]
    ended_at: str | None
    outcome: dict[str, Any] | None


def ledger_rows(output_root: Path) -> list[RunRow]:
    """All runs, in the order in which they began; none where there is no ledger.

    LedgerError: damaged, or written by a newer version. SetupError: it cannot be read.
    """
    path = output_root / FOLDER / FILE
    if not path.exists():
        return []
    with file_errors(path):
        try:
            return _rows(path)
        except ValueError as error:
            raise LedgerError(f"{show(path)} is damaged (a run's facts are no JSON)") from error
        except (OSError, sqlite3.OperationalError) as error:
            if isinstance(error, sqlite3.Error) and error.sqlite_errorcode & 0xFF not in _UNREADABLE:
                raise
            raise SetupError(f"cannot read {show(path)}: {error}") from error


def _rows(path: Path) -> list[RunRow]:
    with closing(sqlite3.connect(_uri(path), uri=True, timeout=10)) as database:
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:
            raise LedgerError(f"{show(path)} was written by a newer mlxbatch (schema {version}): upgrade")
        found = database.execute("SELECT id, started_at, facts, ended_at, outcome FROM runs ORDER BY started_at, rowid")
        return [
            RunRow(run, at, _object(facts) or {}, ended, _object(outcome)) for run, at, facts, ended, outcome in found
        ]


def _uri(path: Path) -> str:
    """The file, to be read only.

    To read a ledger with a write-ahead log SQLite makes files beside it, even read-only, and fails where it cannot. If
    there is no log, nobody has the ledger open and all of it is in the one file: `immutable` reads that alone.
    """
    with path.open("rb") as file:
        header = file.read(_FORMAT + 1)
    alone = header[_FORMAT:] == _WAL and not path.with_name(f"{path.name}-wal").exists()
    return f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if alone else ''}"


def _object(text: str | None) -> dict[str, Any] | None:
    """A column's JSON object; None where there is none."""
    found = json.loads(text) if text is not None else None
    return found if isinstance(found, dict) else None
