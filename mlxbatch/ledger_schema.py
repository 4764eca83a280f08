"""The ledger's tables, and the way from an older version of them to this one."""

from __future__ import annotations

import sqlite3

from mlxbatch.stored import pack_outputs

SCHEMA_VERSION = 2
TABLES = {
    "runs": """
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    started_at TEXT NOT NULL,
    facts TEXT NOT NULL,
    ended_at TEXT,
    outcome TEXT
)""",
    # size to content_hash: the content that the row speaks of. inference_key to done_at: of the stored result, empty
    # where there is none. status to error: how the last attempt went.
    "items": """
CREATE TABLE items (
    number INTEGER PRIMARY KEY,
    task TEXT NOT NULL,
    id TEXT NOT NULL,
    source BLOB NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    content_hash TEXT NOT NULL,
    inference_key TEXT NOT NULL,
    rendering_key TEXT NOT NULL,
    model TEXT NOT NULL,
    outputs BLOB NOT NULL,
    seconds REAL,
    done_at TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('done', 'failed', 'quarantined')),
    attempts INTEGER NOT NULL,
    stage TEXT,
    error TEXT,
    run_id TEXT REFERENCES runs (id),
    finished_at TEXT NOT NULL,
    UNIQUE (task, id)
)""",
    # Apart from the items: what is asked of every item in every run has to lie close together.
    "results": """
CREATE TABLE results (
    item INTEGER PRIMARY KEY REFERENCES items (number),
    result BLOB NOT NULL
)""",
    "in_flight": """
CREATE TABLE in_flight (
    task TEXT NOT NULL,
    id TEXT NOT NULL,
    source BLOB NOT NULL,
    deaths INTEGER NOT NULL,
    live INTEGER NOT NULL,
    given_up INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (task, id)
) WITHOUT ROWID""",
    "baselines": """
CREATE TABLE baselines (
    key TEXT PRIMARY KEY,
    active INTEGER NOT NULL,
    rss INTEGER NOT NULL,
    peak INTEGER NOT NULL,
    updated_at TEXT NOT NULL
)""",
}
_STATUS_INDEX = "CREATE INDEX items_by_status ON items (status)"
_TABLES_OF_1 = frozenset({"runs", "items", "outputs"})

_ITEMS_FROM_1 = """
INSERT INTO items
SELECT
    rowid, task, id, source, size, mtime_ns, inode, content_hash, inference_key, rendering_key, '',
    coalesce((SELECT pack_output(path, size) FROM outputs_1 AS o WHERE o.task = old.task AND o.id = old.id), x''),
    seconds, CASE status WHEN 'done' THEN finished_at ELSE '' END, status, status <> 'done', stage, error, run_id,
    finished_at
FROM items_1 AS old"""


def tables_of(version: int) -> frozenset[str]:
    """The tables that a ledger of a version has to have."""
    return _TABLES_OF_1 if version == 1 else frozenset(TABLES)


def migrate(database: sqlite3.Connection, version: int) -> None:
    """From `version` (0: a new file) to this version's tables, in one transaction. Raises sqlite3.Error.

    A kill leaves the version that was there, or this one, and nothing between.
    """
    if version == SCHEMA_VERSION:
        return
    try:
        database.execute("BEGIN IMMEDIATE")
        if version == 1:
            _from_1(database)
        else:
            _make(database, TABLES)
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _make(database: sqlite3.Connection, tables: dict[str, str]) -> None:
    for statement in tables.values():
        database.execute(statement)
    database.execute(_STATUS_INDEX)


def _from_1(database: sqlite3.Connection) -> None:
    """Results into a table of their own, the outputs' table into a column."""
    database.create_aggregate("pack_output", 2, _PackOutputs)  # type: ignore[arg-type]
    for table in ("items", "outputs"):
        database.execute(f"ALTER TABLE {table} RENAME TO {table}_1")
    _make(database, {name: statement for name, statement in TABLES.items() if name != "runs"})
    database.execute(_ITEMS_FROM_1)
    database.execute("INSERT INTO results SELECT rowid, result FROM items_1 WHERE result IS NOT NULL")
    for table in ("items", "outputs"):
        database.execute(f"DROP TABLE {table}_1")


class _PackOutputs:
    """SQLite's aggregate pack_output(path, size): an item's rows of schema 1's outputs as one value."""

    def __init__(self) -> None:
        self._sizes: dict[bytes, int] = {}

    def step(self, path: bytes, size: int) -> None:
        self._sizes[path] = size

    def finalize(self) -> bytes:
        return pack_outputs(self._sizes)
