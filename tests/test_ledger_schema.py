"""From an older ledger to this one: nothing is lost, and a kill leaves one or the other."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from mlxbatch import ledger_schema
from mlxbatch.errors import SetupError
from mlxbatch.history import History
from mlxbatch.ledger import Fresh, Infer, Ledger, Render, content_hash, fingerprint
from mlxbatch.ledger_schema import SCHEMA_VERSION, migrate
from mlxbatch.stored import pack
from tests.ledgers import TRANSCRIPT, Place, damaged

# As the first version made it.
SCHEMA_1 = """
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
PRAGMA user_version = 1;
"""
DATE = "2024-05-06T07:08:09+00:00"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.make(tmp_path)


def make_1(place: Place, further: int = 0) -> None:
    """A ledger of schema 1: item a is done, with two outputs, b has failed, and so many further ones are done."""
    place.file.parent.mkdir()
    mark, digest = fingerprint(place.source), content_hash(place.source)
    insert = f"INSERT INTO items VALUES ({','.join('?' * 16)})"
    source = os.fsencode(place.source)
    same = (source, mark.size, mark.mtime_ns, mark.inode, digest, "i", "srt txt", pack(TRANSCRIPT), "done", None, None)
    with closing(sqlite3.connect(place.file)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.executescript(SCHEMA_1)
        with database:
            database.execute("INSERT INTO runs VALUES ('r', ?, '{}', NULL, NULL)", (DATE,))
            database.execute(insert, ("transcribe", "a", *same, 1.5, "r", DATE))
            failed = (source, 0, 0, 0, "", "", "", None, "failed", "decode", "no sound")
            database.execute(insert, ("transcribe", "b", *failed, None, "r", DATE))
            rows = [("transcribe", f"f{number}", *same, 1.5, "r", DATE) for number in range(further)]
            database.executemany(insert, rows)
            for name in (b"a.txt", b"\xff.srt"):
                database.execute("INSERT INTO outputs VALUES ('transcribe', 'a', ?, 5)", (name,))


def outputs(place: Place) -> list[str]:
    return [place.output(name).name for name in ("a.txt", os.fsdecode(b"\xff.srt"))]


def check_2(place: Place) -> None:
    Ledger.open(place.root).close()
    assert place.value("PRAGMA user_version") == SCHEMA_VERSION
    assert place.value("PRAGMA integrity_check") == "ok"
    names = outputs(place)
    assert place.decide("i", "srt txt", *names) == Fresh("done on 2024-05-06")
    assert place.decide("i", "txt") == Render(TRANSCRIPT, "formats, lines or speakers changed")
    with Ledger.open(place.root) as ledger:
        assert ledger.decide(place.other("b"), ["i"], "txt", []) == Infer("failed before: decode: no sound")
    assert place.value("SELECT group_concat(attempts) FROM (SELECT * FROM items ORDER BY id LIMIT 2)") == "0,1"
    assert place.value("SELECT count(*) FROM items") == place.value("SELECT count(*) FROM results") + 1


def test_an_old_ledger_is_brought_up_to_date(place: Place) -> None:
    make_1(place)
    check_2(place)
    with place.database() as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables == set(ledger_schema.TABLES)


def test_it_has_the_tables_of_a_new_one(place: Place, tmp_path: Path) -> None:
    query = "SELECT type, name, sql FROM sqlite_master ORDER BY name"
    make_1(place)
    Ledger.open(place.root).close()
    with place.database() as database:
        migrated = database.execute(query).fetchall()
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        migrate(database, 0)
        assert database.execute(query).fetchall() == migrated


def test_an_old_ledger_that_is_damaged_is_not_brought_up_to_date(place: Place) -> None:
    make_1(place)
    with place.database() as database:
        database.execute("DROP TABLE outputs")
    assert "no such table: outputs" in damaged(place)
    assert place.value("PRAGMA user_version") == 1


def test_whoever_only_reads_leaves_an_old_ledger_as_it_is(place: Place) -> None:
    make_1(place)
    before = place.file.read_bytes()
    with History.open(place.root) as history:
        assert history.status() == {"done": 1, "failed": 1, "quarantined": 0}
        assert [run.id for run in history.runs()] == ["r"]
    with Ledger.open(place.root, read_only=True) as ledger:
        assert isinstance(place.decide_in(ledger, "i", "srt txt", *outputs(place)), Fresh)
    assert place.file.read_bytes() == before


def test_a_full_disk_leaves_an_old_ledger_as_it_is(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    make_1(place)
    from_1 = ledger_schema._from_1

    def without_room(database: sqlite3.Connection) -> None:
        (pages,) = database.execute("PRAGMA page_count").fetchone()
        database.execute(f"PRAGMA max_page_count = {pages + 2}")
        from_1(database)

    with monkeypatch.context() as patch:
        patch.setattr(ledger_schema, "_from_1", without_room)
        with pytest.raises(SetupError, match="disk full"):
            Ledger.open(place.root)
    assert place.value("PRAGMA user_version") == 1
    check_2(place)


OPEN = "import sys; from pathlib import Path; from mlxbatch.ledger import Ledger; print('go', flush=True); "


def test_killed_in_the_middle_it_is_the_old_one_or_the_new(place: Place) -> None:
    make_1(place, further=20_000)
    whole = place.root / "whole"
    shutil.copy(place.file, whole)
    seen = set()
    for turn in range(10):
        for left in place.file.parent.iterdir():
            left.unlink()
        shutil.copy(whole, place.file)
        arguments = [sys.executable, "-c", OPEN + "Ledger.open(Path(sys.argv[1])).close()", str(place.root)]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.04 * turn)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        version = place.value("PRAGMA user_version")
        seen.add(version)
        tables = place.value("SELECT group_concat(name) FROM (SELECT * FROM sqlite_master WHERE type = 'table')")
        assert ("outputs" in tables, "results" in tables) == ((True, False) if version == 1 else (False, True))
        assert place.value("SELECT count(*) FROM items") == 20_002
    assert 1 in seen
    check_2(place)
