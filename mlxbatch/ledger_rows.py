"""The rows of the ledger's items and their results: SQL on a connection, within the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlxbatch.content import Fingerprint
from mlxbatch.stored import unpack_outputs
from mlxbatch.types import Item

Key = tuple[str, str]
WHERE = "WHERE task = ? AND id = ?"
FIND = (
    "SELECT number, size, mtime_ns, inode, content_hash, inference_key, rendering_key, outputs, done_at, status, "
    f"stage, error FROM items {WHERE}"
)
# What a row holds where there is no result.
NO_RESULT: dict[str, Any] = {
    "inference_key": "", "rendering_key": "", "model": "", "outputs": b"", "seconds": None, "done_at": ""
}  # fmt: skip
NO_CONTENT = Fingerprint(0, 0, 0)
# What the columns of the last attempt hold where it succeeded.
WENT_WELL: dict[str, Any] = {"status": "done", "attempts": 0, "stage": None, "error": None}


@dataclass(frozen=True, slots=True)
class Row:
    """What an item is decided by. `error` is the last attempt's: "" where that went well."""

    number: int
    fingerprint: Fingerprint
    content_hash: str
    inference_key: str
    rendering_key: str
    outputs: dict[bytes, int]
    done_at: str
    status: str
    stage: str
    error: str

    @property
    def failure(self) -> str:
        """Why an item that failed is tried again; "" where it did not fail, or is quarantined."""
        return f"failed before: {self.stage}: {self.error}" if self.status == "failed" else ""


def key_of(item: Item) -> Key:
    """By what an item is found again."""
    return item.task, item.id


def row_of(found: tuple[Any, ...]) -> Row:
    """From what FIND finds. ValueError or TypeError for what no ledger writes."""
    number, size, mtime_ns, inode, digest, inference, rendering, outputs, done_at, status, stage, error = found
    mark = Fingerprint(size, mtime_ns, _unsigned(inode))
    sizes = unpack_outputs(outputs)
    return Row(number, mark, digest, inference, rendering, sizes, done_at, status, stage or "", error or "")


def content_columns(mark: Fingerprint, digest: str) -> dict[str, Any]:
    """The columns that say which content a row speaks of."""
    return {"size": mark.size, "mtime_ns": mark.mtime_ns, "inode": _signed(mark.inode), "content_hash": digest}


def put(database: sqlite3.Connection, key: Key, columns: Mapping[str, Any]) -> None:
    """All columns of a row, but for its number, which stays where the row is there."""
    names = ["task", "id", *columns]
    changes = ", ".join(f"{name} = excluded.{name}" for name in columns)
    database.execute(
        f"INSERT INTO items ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) "
        f"ON CONFLICT (task, id) DO UPDATE SET {changes}",
        (*key, *columns.values()),
    )


def update(database: sqlite3.Connection, key: Key, columns: Mapping[str, Any]) -> None:
    """Some columns of a row that is there."""
    changes = ", ".join(f"{name} = ?" for name in columns)
    database.execute(f"UPDATE items SET {changes} {WHERE}", (*columns.values(), *key))


def put_result(database: sqlite3.Connection, key: Key, result: bytes) -> None:
    """The result of an item that has a row."""
    database.execute(f"INSERT OR REPLACE INTO results SELECT number, ? FROM items {WHERE}", (result, *key))


def put_failure(database: sqlite3.Connection, key: Key, columns: Mapping[str, Any]) -> None:
    """How an attempt failed. A result from before stays, and so does the content it is of."""
    new = {**content_columns(NO_CONTENT, ""), **NO_RESULT, "attempts": 1}
    names = ["task", "id", *new, *columns]
    changes = ", ".join(f"{name} = excluded.{name}" for name in columns)
    database.execute(
        f"INSERT INTO items ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) "
        f"ON CONFLICT (task, id) DO UPDATE SET {changes}, attempts = attempts + 1",
        (*key, *new.values(), *columns.values()),
    )


def clear_failure(database: sqlite3.Connection, key: Key) -> None:
    """The result from before a failure is in use again; quarantine stays."""
    changes = ", ".join(f"{name} = ?" for name in WENT_WELL)
    database.execute(f"UPDATE items SET {changes} {WHERE} AND status = 'failed'", (*WENT_WELL.values(), *key))


def pin(database: sqlite3.Connection, key: Key, mark: Fingerprint, digest: str) -> None:
    """From here on a row speaks of this content; a result of other content is dropped."""
    other = f"{WHERE} AND content_hash <> ?"
    database.execute(f"DELETE FROM results WHERE item IN (SELECT number FROM items {other})", (*key, digest))
    changes = ", ".join(f"{name} = ?" for name in NO_RESULT)
    database.execute(f"UPDATE items SET {changes} {other}", (*NO_RESULT.values(), *key, digest))
    update(database, key, content_columns(mark, digest))


def _signed(number: int) -> int:
    """SQLite's integers are signed; some file systems have inodes of 64 bits."""
    return number - (1 << 64) if number >= 1 << 63 else number


def _unsigned(number: int) -> int:
    return number + (1 << 64) if number < 0 else number
