"""The ledger's SQLite file: its tables, opening it, and SQLite's errors in the toolkit's terms."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlxbatch.errors import LedgerError, LockedError, MlxBatchError, SetupError, show
from mlxbatch.state import on_network

FILE = "ledger.sqlite3"
SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    started_at TEXT NOT NULL,
    facts TEXT NOT NULL,
    ended_at TEXT,
    outcome TEXT
);
CREATE TABLE items (
    task TEXT NOT NULL,
    id TEXT NOT NULL,
    source BLOB NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    content_hash TEXT NOT NULL,
    inference_key TEXT NOT NULL,
    rendering_key TEXT NOT NULL,
    result BLOB,
    status TEXT NOT NULL CHECK (status IN ('done', 'failed')),
    stage TEXT,
    error TEXT,
    seconds REAL,
    run_id TEXT REFERENCES runs (id),
    finished_at TEXT NOT NULL,
    PRIMARY KEY (task, id)
);
CREATE TABLE outputs (
    task TEXT NOT NULL,
    id TEXT NOT NULL,
    path BLOB NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (task, id, path)
) WITHOUT ROWID;
"""
# Tables that are not those of their version, or values that are not of their column, say so in these codes.
_DAMAGE = frozenset(
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_ERROR}
    | {sqlite3.SQLITE_SCHEMA, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH}
)
_UNWRITABLE = frozenset(
    {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_AUTH}
)


def open_file(path: Path) -> sqlite3.Connection:
    """A connection to a whole ledger of this version, made where there is none. Raises sqlite3.Error, LedgerError."""
    # isolation_level=None: transactions are begun and ended by the ledger, not guessed by the sqlite3 module.
    database = sqlite3.connect(path, timeout=10, isolation_level=None)
    try:
        _set_journal(database, on_network(path.parent))
        _prepare(path, database)
    except BaseException:
        database.close()
        raise
    return database


def _set_journal(database: sqlite3.Connection, network: bool) -> None:
    # WAL's shared memory does not work across hosts; and at NORMAL a power loss can damage a file with a rollback
    # journal, but not one with a WAL.
    # Where there can be no WAL (a full disk, a file system without shared memory) SQLite keeps the other, and no error.
    (journal,) = database.execute(f"PRAGMA journal_mode = {'DELETE' if network else 'WAL'}").fetchone()
    database.execute(f"PRAGMA synchronous = {'NORMAL' if journal == 'wal' else 'FULL'}")


def _prepare(path: Path, database: sqlite3.Connection) -> None:
    """Make the tables of a new ledger; see that an old one is whole, and one this version knows."""
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA_VERSION:
        raise LedgerError(
            f"{show(path)} was written by a newer mlxbatch (schema {version}, this one knows {SCHEMA_VERSION}): "
            f"upgrade, or {_way_out(path)}"
        )
    if version == 0:
        # Its own transaction: a kill leaves either no tables and version 0, or all and version 1.
        database.executescript(f"BEGIN IMMEDIATE;{_SCHEMA}PRAGMA user_version = {SCHEMA_VERSION};COMMIT;")
    (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise _damaged(path, verdict)


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Disk full and no permission become SetupError, damage LedgerError, a busy file LockedError.

    Other errors, those of a wrong call among them, pass as they are.
    """
    try:
        yield
    except sqlite3.Error as error:
        translated = _translated(path, error)
        if translated is None:
            raise
        raise translated from error


def _translated(path: Path, error: sqlite3.Error) -> MlxBatchError | None:
    if not hasattr(error, "sqlite_errorcode"):
        # Text that is no UTF-8 comes as an OperationalError without a code.
        return _damaged(path, str(error)) if isinstance(error, sqlite3.OperationalError) else None
    code = error.sqlite_errorcode & 0xFF  # the low byte is the primary code
    if code == sqlite3.SQLITE_FULL:
        return SetupError(f"disk full: cannot write {show(path)}; free some space and run again")
    if code in _UNWRITABLE:
        hint = "; is the disk full, or failing?" if code == sqlite3.SQLITE_IOERR else ""
        return SetupError(f"cannot write {show(path)}: {error}{hint}")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LockedError(f"{show(path)} is in use by another program: close it and run again")
    return _damaged(path, str(error)) if code in _DAMAGE else None


def _damaged(path: Path, cause: str) -> LedgerError:
    return LedgerError(f"{show(path)} is damaged ({show(cause)}): {_way_out(path)}")


def _way_out(path: Path) -> str:
    return (
        f"move it away with: mv {shlex.quote(show(path))} {shlex.quote(show(path) + '.damaged')}; "
        "outputs are kept, the next run does the files again"
    )
