"""The ledger's runs, read beside a writer, after one, and from where nothing can be written."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from mlxbatch.errors import LedgerError, SetupError
from mlxbatch.ledger import Ledger
from mlxbatch.report.run import ledger_rows, ledger_totals, read_history
from mlxbatch.types import Item

from .nights import Night, night_id, write


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    """What lies below a folder: name -> size and time of the last change."""
    found = {path: path.stat() for path in sorted(folder.rglob("*"))}
    return {str(path.relative_to(folder)): (at.st_size, at.st_mtime_ns) for path, at in found.items()}


def test_runs_in_the_order_in_which_they_began(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        ledger.begin_run("d", {"model": "m"})
        ledger.end_run("d", {"outcome": "finished", "done": 3})
        ledger.begin_run("c", {"model": "n"})
        first, second = ledger_rows(tmp_path)  # beside the one who writes
    assert (first.id, first.facts, first.outcome) == ("d", {"model": "m"}, {"outcome": "finished", "done": 3})
    assert (second.id, second.ended_at, second.outcome) == ("c", None, None)
    assert first.ended_at is not None
    before = tree(tmp_path)
    assert ledger_rows(tmp_path) == [first, second]
    assert tree(tmp_path) == before


def test_a_place_without_a_ledger_has_no_runs(tmp_path: Path) -> None:
    assert ledger_rows(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_killed_writer_leaves_its_runs(tmp_path: Path) -> None:
    out, copy = tmp_path / "out", tmp_path / "copy"
    with Ledger.open(out) as ledger:
        ledger.begin_run("a", {})
        shutil.copytree(out, copy)  # as the disk is at this moment: the row is in the write-ahead log
    assert (copy / ".mlxbatch" / "ledger.sqlite3-wal").stat().st_size > 0
    assert [row.id for row in ledger_rows(copy)] == ["a"]


def test_a_ledger_with_a_rollback_journal_is_read(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        ledger.begin_run("a", {})
    with closing(sqlite3.connect(tmp_path / ".mlxbatch" / "ledger.sqlite3")) as database:
        database.execute("PRAGMA journal_mode = DELETE")
    assert [row.id for row in ledger_rows(tmp_path)] == ["a"]


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="becomes another user, which only root can")
def test_a_folder_that_cannot_be_written_to_is_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    out = tmp_path_factory.mktemp("shared")
    with Ledger.open(out) as ledger:
        ledger.begin_run("a", {})
    for folder in (*out.parents[:3], out, out / ".mlxbatch"):
        folder.chmod(stat.S_IMODE(folder.stat().st_mode) | 0o055)
    # All is loaded before it becomes the user, who may not be able to read our modules.
    code = "import os, sqlite3, sys; from pathlib import Path; from mlxbatch.report.run import ledger_rows; "
    code += "os.setuid(65534); print([row.id for row in ledger_rows(Path(sys.argv[1]))])"
    done = subprocess.run([sys.executable, "-c", code, out], capture_output=True, text=True, check=True)
    assert done.stdout == "['a']\n"


def test_a_damaged_ledger_says_so(tmp_path: Path) -> None:
    (tmp_path / ".mlxbatch").mkdir()
    path = tmp_path / ".mlxbatch" / "ledger.sqlite3"
    path.write_bytes(b"no database at all, " * 400)
    with pytest.raises(LedgerError, match=r"ledger\.sqlite3 is damaged"):
        ledger_rows(tmp_path)
    path.write_bytes(b"")
    assert ledger_rows(tmp_path) == [], "a run that was killed as it began"


def test_a_ledger_of_a_later_version_says_so(tmp_path: Path) -> None:
    with Ledger.open(tmp_path):
        pass
    with closing(sqlite3.connect(tmp_path / ".mlxbatch" / "ledger.sqlite3")) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(LedgerError, match="newer mlxbatch"):
        ledger_rows(tmp_path)


def test_what_is_no_file_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / ".mlxbatch" / "ledger.sqlite3").mkdir(parents=True)
    with pytest.raises(SetupError, match=r"cannot (open|read) .*ledger\.sqlite3"):
        ledger_rows(tmp_path)


def test_facts_that_are_no_json_are_damage(tmp_path: Path) -> None:
    with Ledger.open(tmp_path) as ledger:
        ledger.begin_run("a", {})
    with closing(sqlite3.connect(tmp_path / ".mlxbatch" / "ledger.sqlite3")) as database, database:
        database.execute("UPDATE runs SET facts = '{'")
    with pytest.raises(LedgerError, match="no JSON"):
        ledger_rows(tmp_path)


def test_files_by_what_all_runs_made_of_them(tmp_path: Path) -> None:
    assert ledger_totals(tmp_path) is None
    write(tmp_path, Night(night_id(1)))
    with Ledger.open(tmp_path) as ledger:
        for number in range(3):
            item = Item(str(number), tmp_path / "a.wav", Path("a"))
            ledger.failed(item, "infer", "killed", quarantined=number == 0)
    history = read_history(tmp_path)
    assert ledger_totals(tmp_path) == history.totals == {"done": 0, "failed": 2, "quarantined": 1}
