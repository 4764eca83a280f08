"""Items at risk and items given up: SQL on the ledger's connection, in the caller's transaction.

A decoder that crashes, or a kill, takes the program with it, and nothing can be written down any more. So a mark is
made before an item's work begins. A mark that is found again is a death that the item was there at: it may be at fault.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from mlxbatch.ledger_rows import WHERE, Key

# After so many in a row an item is quarantined.
DEADLY = 5
CAUSE = f"in flight when the program died {DEADLY} times"
LIVE = "SELECT task, id, source, deaths FROM in_flight WHERE live"


def begin(database: sqlite3.Connection, marks: Iterable[tuple[Key, bytes]]) -> None:
    """Items, and their source paths, whose work begins."""
    database.executemany(
        "INSERT INTO in_flight (task, id, source, deaths, live) VALUES (?, ?, ?, 0, 1) "
        "ON CONFLICT (task, id) DO UPDATE SET live = 1",
        [(*key, source) for key, source in marks],
    )


def survive(database: sqlite3.Connection, keys: Iterable[Key]) -> None:
    """The dangerous part of the work is over."""
    marks = list(keys)
    database.executemany(f"DELETE FROM in_flight {WHERE} AND deaths = 0 AND NOT given_up", marks)
    database.executemany(f"UPDATE in_flight SET live = 0 {WHERE}", marks)


def give_up(database: sqlite3.Connection, marks: Iterable[tuple[Key, bytes]]) -> None:
    """Items, and their source paths, for which there was not enough time."""
    database.executemany(
        "INSERT INTO in_flight (task, id, source, deaths, live, given_up) VALUES (?, ?, ?, 0, 0, 1) "
        "ON CONFLICT (task, id) DO UPDATE SET given_up = 1",
        [(*key, source) for key, source in marks],
    )


def clear(database: sqlite3.Connection, key: Key) -> None:
    """The work on an item came to its end, and the program with it: it is no suspect any more."""
    database.execute(f"DELETE FROM in_flight {WHERE}", key)


def end(database: sqlite3.Connection) -> None:
    """The program ends in order: what is still marked was dropped, not died of."""
    database.execute("DELETE FROM in_flight WHERE deaths = 0 AND NOT given_up")
    database.execute("UPDATE in_flight SET live = 0")


def count_deaths(database: sqlite3.Connection) -> None:
    """A death for each mark that a program which died has left."""
    database.execute("UPDATE in_flight SET deaths = deaths + 1, live = 0 WHERE live")
