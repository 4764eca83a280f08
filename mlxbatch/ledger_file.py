"""The ledger's SQLite file: opening it, seeing that it is whole, and SQLite's errors in the toolkit's terms.

A file is read through (`PRAGMA quick_check`) when it is opened for a run, unless it is, by size, time and inode, the
one that the last run closed in order: then nobody can have written to it since. What that leaves out, a disk that rots
under an unchanged stat, is called damage where it is met.
"""

from __future__ import annotations

import shlex
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from mlxbatch.errors import LedgerError, LockedError, MlxBatchError, SetupError, show
from mlxbatch.ledger_schema import SCHEMA_VERSION as SCHEMA_VERSION
from mlxbatch.ledger_schema import migrate, tables_of
from mlxbatch.state import on_network

FILE = "ledger.sqlite3"
# Beside the ledger while no run has it open: the stat of the file as its last run closed it.
_CLOSED = "ledger.closed"
# Each result has a checksum of its own (zlib's), and they are most of the file.
_NOT_READ_THROUGH = "results"
# Tables that are not those of their version, or values that are not of their column, say so in these codes.
_DAMAGE = frozenset(
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_ERROR}
    | {sqlite3.SQLITE_SCHEMA, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH}
)
_UNOPENED = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH})


class Database:
    """A connection that several threads may use, one at a time; errors come in the toolkit's terms."""

    def __init__(self, path: Path, connection: sqlite3.Connection, *, read_only: bool) -> None:
        self.path, self.connection, self.read_only = path, connection, read_only
        self._lock = threading.RLock()
        self._open = True

    def fetch(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """All rows at once: no statement is left open, which would hold up a writer elsewhere."""
        with self._lock, file_errors(self.path):
            return self.connection.execute(query, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, committed on leaving."""
        with self._lock, file_errors(self.path):
            try:
                # Inside: a signal's exception may come between any two lines.
                self.connection.execute("BEGIN IMMEDIATE")
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    def close(self, *, damaged: bool = False) -> None:
        """More than once is fine. `damaged`: the next run shall read the file through, whatever its stat says."""
        with self._lock:
            if not self._open:
                return
            self._open = False
            try:
                if not (self.read_only or damaged):
                    self._write_back()
            finally:
                self.connection.close()
        if not (self.read_only or damaged):
            with suppress(OSError):
                self.path.with_name(_CLOSED).write_text(_stamp(self.path), "ascii")

    def _write_back(self) -> None:
        """Bring the write-ahead log into the file, as SQLite does while it closes, but hear of a full disk."""
        with file_errors(self.path):
            self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def open_for_writing(path: Path) -> Database:
    """A whole ledger of this version, made where there is none, and brought up to date where it is older.

    Raises sqlite3.Error, LedgerError.
    """
    whole = _closed_in_order(path)
    with suppress(OSError):
        path.with_name(_CLOSED).unlink()
    connection = _connect(str(path))
    try:
        _set_journal(connection, on_network(path.parent))
        version = _version(path, connection)
        if version and not whole:
            _read_through(path, connection, version)
        migrate(connection, version)
    except BaseException:
        connection.close()
        raise
    return Database(path, connection, read_only=False)


def open_for_reading(path: Path) -> Database:
    """An existing ledger, while others may write to it; an older one as this version would see it.

    Nothing is read through. Raises sqlite3.Error, LedgerError.
    """
    connection = _connect_to_read(path)
    try:
        version = _version(path, connection)
        if version == SCHEMA_VERSION:
            return Database(path, connection, read_only=True)
        copy = _migrated_copy(connection, version)
    except BaseException:
        connection.close()
        raise
    connection.close()
    return Database(path, copy, read_only=True)


def _migrated_copy(old: sqlite3.Connection, version: int) -> sqlite3.Connection:
    copy = _connect("")  # a temporary database of SQLite's own, on disk where it is large
    try:
        old.backup(copy)
        migrate(copy, version)
        copy.execute("PRAGMA query_only = ON")
    except BaseException:
        copy.close()
        raise
    return copy


def _connect(name: str, *, uri: bool = False) -> sqlite3.Connection:
    # isolation_level=None: transactions are begun and ended by the ledger, not guessed by the sqlite3 module.
    return sqlite3.connect(name, timeout=10, isolation_level=None, check_same_thread=False, uri=uri)


def _connect_to_read(path: Path) -> sqlite3.Connection:
    # To read a file with a write-ahead log SQLite makes files beside it, and fails where it cannot. Without such a log
    # nobody has the ledger open, and all of it is in the one file, which `immutable` reads alone.
    alone = _has_wal_format(path) and not path.with_name(f"{path.name}-wal").exists()
    uri = path.absolute().as_uri()
    connection = _connect(f"{uri}?mode=ro{'&immutable=1' if alone else ''}", uri=True)
    try:
        connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error as error:
        connection.close()
        if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_READONLY_ROLLBACK:
            raise
        # A rollback journal that a killed run left has to be played back by whoever comes first.
        connection = _connect(f"{uri}?mode=rw", uri=True)
        connection.execute("PRAGMA query_only = ON")
    return connection


def _has_wal_format(path: Path) -> bool:
    """Whether the file's header says so, at offset 18 (SQLite's "Database File Format", 1.3)."""
    try:
        with path.open("rb") as file:
            return file.read(19)[18:] == b"\2"
    except OSError:
        return False  # SQLite says what is wrong


def _set_journal(database: sqlite3.Connection, network: bool) -> None:
    # WAL's shared memory does not work across hosts; and at NORMAL a power loss can damage a file with a rollback
    # journal, but not one with a WAL.
    # Where there can be no WAL (a full disk, a file system without shared memory) SQLite keeps the other, and no error.
    (journal,) = database.execute(f"PRAGMA journal_mode = {'DELETE' if network else 'WAL'}").fetchone()
    database.execute(f"PRAGMA synchronous = {'NORMAL' if journal == 'wal' else 'FULL'}")
    # In KiB: by default 2 MB, which grow as a night goes on and look like a leak, and a run's rows need little of it.
    database.execute("PRAGMA cache_size = -512")


def _version(path: Path, database: sqlite3.Connection) -> int:
    version = int(database.execute("PRAGMA user_version").fetchone()[0])
    if version > SCHEMA_VERSION:
        raise LedgerError(
            f"{show(path)} was written by a newer mlxbatch (schema {version}, this one knows {SCHEMA_VERSION}): "
            f"upgrade, or {way_out(path)}"
        )
    return version


def check_file(path: Path) -> int:
    """See that a ledger which is there opens and is whole, without writing to it; returns how many items it holds.

    LedgerError: damaged, or of a newer version; SetupError: cannot be read; LockedError: another program has it.
    """
    with file_errors(path), closing(_connect_to_read(path)) as database:
        version = _version(path, database)
        if not version:  # a run that was killed as it began has left no tables
            return 0
        _read_through(path, database, version)
        return int(database.execute("SELECT count(*) FROM items").fetchone()[0])


# --- whether it is whole ---------------------------------------------------------------------------------------------


def _stamp(path: Path) -> str:
    found = path.stat()
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ino}"


def _closed_in_order(path: Path) -> bool:
    """Whether the file is the one that the last run closed, and no other has begun since."""
    try:
        return path.with_name(_CLOSED).read_text("ascii") == _stamp(path) and not _left_behind(path)
    except (OSError, ValueError):
        return False


def _left_behind(path: Path) -> bool:
    """Whether transactions lie beside the file: someone is at it now, or was killed."""
    for suffix in ("-wal", "-journal"):
        with suppress(OSError):
            if path.with_name(path.name + suffix).stat().st_size:
                return True
    return False


def _read_through(path: Path, database: sqlite3.Connection, version: int) -> None:
    found = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table in sorted(tables_of(version)):
        if table not in found:
            raise damage(path, f"no such table: {table}")
        if table != _NOT_READ_THROUGH:
            (verdict,) = database.execute(f"PRAGMA quick_check({table})").fetchone()
            if verdict != "ok":
                raise damage(path, verdict)


# --- errors ----------------------------------------------------------------------------------------------------------


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
    except UnicodeDecodeError as error:
        # SQLite names what is damaged, and what it names may be.
        raise damage(path, str(error)) from error


def _translated(path: Path, error: sqlite3.Error) -> MlxBatchError | None:
    if not hasattr(error, "sqlite_errorcode"):
        # Text that is no UTF-8 comes as an OperationalError without a code.
        return damage(path, str(error)) if isinstance(error, sqlite3.OperationalError) else None
    code = error.sqlite_errorcode & 0xFF  # the low byte is the primary code
    if code == sqlite3.SQLITE_FULL:
        return SetupError(f"disk full: cannot write {show(path)}; free some space and run again")
    if code in _UNOPENED:
        return SetupError(f"cannot open {show(path)}: {error}")
    if code == sqlite3.SQLITE_READONLY:
        return SetupError(f"cannot write {show(path)}: {error}")
    if code == sqlite3.SQLITE_IOERR:
        return SetupError(f"cannot read or write {show(path)}: {error}; is the disk full, or failing?")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LockedError(f"{show(path)} is in use by another program: close it and run again")
    return damage(path, str(error)) if code in _DAMAGE else None


def damage(path: Path, cause: str) -> LedgerError:
    """The error for a damaged ledger, with the way out."""
    return LedgerError(f"{show(path)} is damaged ({show(cause)}): {way_out(path)}")


def way_out(path: Path) -> str:
    """What to do about a ledger that cannot be used."""
    return (
        f"move it away with: mv {shlex.quote(show(path))} {shlex.quote(show(path) + '.damaged')}; "
        "outputs are kept, the next run does the files again"
    )
