"""The ledger's file: after kills, full disks and damage; and when it is read through on opening."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mlxbatch import ledger_file
from mlxbatch.errors import LedgerError, LockedError, SetupError
from mlxbatch.ledger import Fresh, Infer, Ledger
from mlxbatch.ledger_file import open_for_reading
from tests.ledgers import Place, damaged, fill


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.make(tmp_path)


@pytest.fixture
def read_through(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that are read through from here on."""
    found: list[Path] = []
    original = ledger_file._read_through

    def recorded(path: Path, database: sqlite3.Connection, version: int) -> None:
        found.append(path)
        original(path, database, version)

    monkeypatch.setattr(ledger_file, "_read_through", recorded)
    return found


@pytest.mark.parametrize(("network", "journal"), [(False, "wal"), (True, "delete")])
def test_wal_on_local_disks_and_a_rollback_journal_on_network_mounts(
    place: Place, monkeypatch: pytest.MonkeyPatch, network: bool, journal: str
) -> None:
    monkeypatch.setattr(ledger_file, "on_network", lambda folder: network)
    place.done()
    with Ledger.open(place.root) as ledger:
        assert ledger._database.connection.execute("PRAGMA journal_mode").fetchone() == (journal,)
        assert isinstance(place.decide_in(ledger), Fresh)


def test_a_newer_ledger_is_not_touched(place: Place) -> None:
    place.done()
    with place.database() as database:
        database.execute("PRAGMA user_version = 3")
    for read_only in (False, True):
        with pytest.raises(LedgerError, match=r"newer mlxbatch \(schema 3, this one knows 2\): upgrade, or move it"):
            Ledger.open(place.root, read_only=read_only)


# --- damage ----------------------------------------------------------------------------------------------------------


def test_what_is_no_database_is_damaged_and_the_way_out_works(place: Place) -> None:
    place.done()
    place.file.write_bytes(b"this is no database, but it is long enough to be one" * 100)
    message = damaged(place)
    assert message.startswith(f"{place.file} is damaged (file is not a database)")
    subprocess.run(message.partition("with: ")[2].partition(";")[0], shell=True, check=True)
    assert place.decide() == Infer("new")
    assert (place.root / "a.txt").exists()


@pytest.mark.parametrize("table", ["items", "results", "baselines"])
def test_missing_tables_are_damage(place: Place, table: str) -> None:
    place.done()
    with place.database() as database:
        database.execute(f"DROP TABLE {table}")
    assert f"no such table: {table}" in damaged(place)


def test_bad_text_is_damage_where_it_is_met(place: Place) -> None:
    place.done()
    with place.database() as database:
        database.execute("UPDATE items SET stage = CAST(x'ff' AS TEXT)")
    with pytest.raises(LedgerError, match="Could not decode to UTF-8"):
        place.decide()


def test_wherever_bytes_are_overwritten_it_opens_or_is_called_damaged(place: Place) -> None:
    with Ledger.open(place.root) as ledger:
        fill(ledger, 200)
        place.done_in(ledger, item=place.other("7"))
    whole = place.file.read_bytes()
    chance, called = random.Random(7), 0
    for _ in range(150):
        at, length = chance.randrange(len(whole)), chance.choice([1, 16, 512])
        place.file.write_bytes(whole[:at] + chance.randbytes(length) + whole[at + length :])
        try:
            with Ledger.open(place.root) as ledger:
                ledger.decide(place.other("7"), ["i"], "srt", [])
                place.done_in(ledger)
        except LedgerError:
            called += 1
    assert called > 20


def break_page(place: Place, of: str) -> None:
    """Overwrite the root page of a table or an index, so that its stat does not show it."""
    query = f"SELECT rootpage FROM sqlite_master WHERE {of}"
    with sqlite3.connect(place.file) as database:
        (page,) = database.execute(query).fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
    database.close()
    before = place.file.stat()
    with place.file.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\x55" * size)
    os.utime(place.file, ns=(before.st_atime_ns, before.st_mtime_ns))


INDEX = "type = 'index' AND name LIKE '%autoindex_items%'"


def test_damage_is_found_on_opening_where_the_stat_tells_of_it(place: Place) -> None:
    place.done()
    break_page(place, INDEX)
    os.utime(place.file, ns=(1, 1))
    damaged(place)
    # And again: nothing says that it was closed in order.
    damaged(place)


@pytest.mark.parametrize(
    ("of", "how"),
    [
        (INDEX, "decide"),
        ("name = 'items'", "decide"),
        ("name = 'results'", "render"),
        ("name = 'results'", "done"),
        ("name = 'in_flight'", "done"),
        ("name = 'items_by_status'", "done"),
    ],
)
def test_damage_that_nothing_tells_of_is_called_so_where_it_is_met(place: Place, of: str, how: str) -> None:
    place.done()
    break_page(place, of)
    meet = {
        "decide": place.decide,
        "render": lambda: place.decide("i", "srt"),
        "done": lambda: place.done(item=place.other("b")),
    }
    with pytest.raises(LedgerError, match=r"ledger\.sqlite3 is damaged"):
        meet[how]()
    assert not ledger_file._closed_in_order(place.file)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_file_is_damaged(place: Place, share: float) -> None:
    with Ledger.open(place.root) as ledger:
        fill(ledger, 200)
    os.truncate(place.file, int(place.file.stat().st_size * share))
    damaged(place)


# --- when it is read through -----------------------------------------------------------------------------------------


def test_what_was_closed_in_order_is_not_read_through(place: Place, read_through: list[Path]) -> None:
    place.done()
    assert isinstance(place.decide(), Fresh)
    place.failed()
    assert place.decide("other") == Infer("failed before: decode: x")
    assert read_through == []


@pytest.mark.parametrize("change", ["touched", "copied", "no mark", "torn mark", "wal"])
def test_what_may_have_changed_since_is_read_through_once(place: Place, read_through: list[Path], change: str) -> None:
    place.done()
    mark = place.file.with_name("ledger.closed")
    if change == "touched":
        os.utime(place.file, ns=(1, 1))
    elif change == "copied":
        place.file.rename(place.root / "copy")
        place.file.write_bytes((place.root / "copy").read_bytes())
        os.utime(place.file, ns=(0, (place.root / "copy").stat().st_mtime_ns))
    elif change == "no mark":
        mark.unlink()
    elif change == "torn mark":
        mark.write_text(mark.read_text()[:-1])
    else:
        place.file.with_name("ledger.sqlite3-wal").write_bytes(b"x")
    assert isinstance(place.decide(), Fresh)
    assert read_through == [place.file]
    place.decide()
    assert read_through == [place.file]


def test_an_error_of_the_run_does_not_make_the_ledger_suspect(place: Place, read_through: list[Path]) -> None:
    place.done()
    with pytest.raises(KeyboardInterrupt), Ledger.open(place.root):
        raise KeyboardInterrupt
    place.decide()
    assert read_through == []


def test_a_killed_run_s_ledger_is_read_through(place: Place, read_through: list[Path]) -> None:
    place.done()
    kill_a_writer(place, 3)
    place.decide()
    assert read_through == [place.file]


# --- errors that are no damage ---------------------------------------------------------------------------------------


def test_a_full_disk_is_no_damage(place: Place) -> None:
    with Ledger.open(place.root) as ledger:
        database = ledger._database.connection
        (pages,) = database.execute("PRAGMA page_count").fetchone()
        database.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(SetupError, match=r"disk full: cannot write .*ledger\.sqlite3"):
            fill(ledger, 1000)
        database.execute("PRAGMA max_page_count = 100000")
        ledger.failed(place.item, "decode", "again")
    assert place.decide() == Infer("failed before: decode: again")


def test_a_file_that_cannot_be_written_is_no_damage(place: Place) -> None:
    with Ledger.open(place.root) as ledger:
        ledger._database.connection.execute("PRAGMA query_only = ON")
        with pytest.raises(SetupError, match=r"cannot write .*ledger\.sqlite3: attempt to write a readonly database"):
            ledger.failed(place.item, "decode", "x")


def test_a_folder_in_place_of_the_file_cannot_be_opened(place: Place) -> None:
    place.file.mkdir(parents=True)
    with pytest.raises(SetupError, match=r"cannot open .*ledger\.sqlite3: unable to open database file"):
        Ledger.open(place.root)
    with pytest.raises(SetupError, match=r"cannot read or write .*ledger\.sqlite3: disk I/O error"):
        Ledger.open(place.root, read_only=True)


def test_a_database_that_another_program_holds_is_locked(place: Place) -> None:
    place.done()
    other = sqlite3.connect(place.file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with Ledger.open(place.root) as ledger:
        ledger._database.connection.execute("PRAGMA busy_timeout = 10")
        with pytest.raises(LockedError, match="in use by another program"):
            ledger.failed(place.item, "decode", "x")
    other.close()


# --- reading while another writes, or after it was killed ------------------------------------------------------------


def counted(place: Place) -> int:
    database = open_for_reading(place.file)
    try:
        return int(database.fetch("SELECT count(*) FROM items")[0][0])
    finally:
        database.close()


@pytest.mark.parametrize("network", [False, True])
def test_a_reader_sees_what_is_committed(place: Place, monkeypatch: pytest.MonkeyPatch, network: bool) -> None:
    monkeypatch.setattr(ledger_file, "on_network", lambda folder: network)
    with Ledger.open(place.root) as ledger:
        fill(ledger, 3)
        reader = open_for_reading(place.file)
        assert reader.fetch("SELECT count(*) FROM items") == [(3,)]
        place.done_in(ledger)
        assert reader.fetch("SELECT count(*) FROM items") == [(4,)]
    assert reader.fetch("SELECT count(*) FROM items") == [(4,)]
    reader.close()


@pytest.mark.parametrize("network", [False, True])
def test_a_reader_sees_what_a_killed_run_has_committed(place: Place, network: bool) -> None:
    for turn in range(4):
        printed = kill_a_writer(place, 3, first=100 * turn, network=network)
        before = counted(place)
        assert before >= len(printed)
        Ledger.open(place.root).close()
        assert counted(place) == before


def test_a_journal_that_a_killed_run_left_is_played_back_by_whoever_comes_first(place: Place) -> None:
    """A transaction that had begun to reach the file itself, without a WAL, is undone."""
    with Ledger.open(place.root) as ledger:
        fill(ledger, 50)
    script = f"""
import os, sqlite3
database = sqlite3.connect({str(place.file)!r}, isolation_level=None)
database.execute("PRAGMA journal_mode = DELETE")
database.execute("PRAGMA cache_size = 1")
database.execute("BEGIN IMMEDIATE")
database.execute("DELETE FROM items")
database.execute("CREATE TABLE filler AS SELECT zeroblob(100000)")
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    assert place.file.with_name("ledger.sqlite3-journal").stat().st_size > 0
    assert counted(place) == 50


def test_a_folder_that_cannot_be_written_to_can_be_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.done()
    before = sorted(place.file.parent.iterdir())
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert counted(place) == 1
    assert sorted(place.file.parent.iterdir()) == before


# --- kill -9 ---------------------------------------------------------------------------------------------------------

WRITER = """
import sys
from pathlib import Path
import mlxbatch.ledger_file
from mlxbatch.ledger import Fingerprint, Ledger
from mlxbatch.types import Item, Segment, Transcript
root, number, network = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "True"
mlxbatch.ledger_file.on_network = lambda folder: network
(root / "a.txt").write_text("hello")
transcript = Transcript((Segment(0.0, 1.0, "word " * 2000),), "en", 1.0)
with Ledger.open(root) as ledger:
    while True:
        item = Item(str(number), root / "a.wav", Path("a"))
        with ledger.at_risk([item]):
            pass
        ledger.done(item, fingerprint=Fingerprint(1, 2, 3), content_hash="c", inference_key="i", rendering_key="txt",
                    transcript=transcript, outputs=[root / "a.txt"], seconds=1.0)
        print(number, flush=True)
        number += 1
"""


def kill_a_writer(place: Place, lines: int, *, first: int = 0, network: bool = False, wait: float = 0.0) -> list[int]:
    """Kill a writer after so many rows, and a moment; the rows that it said were written."""
    arguments = [sys.executable, "-c", WRITER, str(place.root), str(first), str(network)]
    writer = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    seen = [writer.stdout.readline() for _ in range(lines)]
    time.sleep(wait)
    writer.send_signal(signal.SIGKILL)
    seen += writer.stdout.readlines()
    writer.wait()
    writer.stdout.close()
    return [int(line) for line in seen if line.endswith("\n")]


@pytest.mark.parametrize("network", [False, True])
def test_kill_9_in_the_middle_of_writing_loses_no_finished_row(place: Place, network: bool) -> None:
    total = 0
    for turn in range(6):
        printed = kill_a_writer(place, 3 + turn, first=total, network=network, wait=0.003 * turn)
        with Ledger.open(place.root) as ledger:
            rows = {int(name) for (name,) in ledger._database.fetch("SELECT id FROM items")}
            assert set(printed) <= rows
            # The row in flight may be there, unprinted; never half of one, never a gap.
            assert rows == set(range(max(rows) + 1))
            assert len(rows) - (total + len(printed)) in (0, 1)
            assert ledger._database.fetch("SELECT count(*) FROM results JOIN items ON item = number") == [(len(rows),)]
            assert not {name for _, name in ledger.suspects()} & {str(row) for row in rows}
        total = len(rows)
