"""The lock and the ledger of an output root, in every state that a run can leave them in."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from mlxbatch.doctor.finding import Case, Finding
from mlxbatch.doctor.state import check_ledger, check_lock
from mlxbatch.ledger import Ledger

from ..test_lock import held_elsewhere, holder_file, leave_holder, refused


def lock(root: Path) -> Finding:
    (found,) = check_lock(Case(output=root))
    return found


def ledger(root: Path) -> Finding:
    (found,) = check_ledger(Case(output=root))
    return found


def test_without_an_output_root_it_says_what_it_left_out() -> None:
    (found,) = check_lock(Case())
    assert (found.level, found.remedy) == ("note", "mlxbatch doctor OUT")
    assert list(check_ledger(Case())) == []


def test_a_free_lock(tmp_path: Path) -> None:
    assert lock(tmp_path / "new").level == "ok"
    assert not (tmp_path / "new").exists()


def test_a_live_holder_is_named_and_not_disturbed(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as process:
        found = lock(tmp_path)
        assert found.level == "note"
        assert f"in use by process {process.pid} on " in found.what
        assert f"process {process.pid}" in refused(tmp_path)


def test_a_dead_holders_lock_is_stale(tmp_path: Path) -> None:
    leave_holder(tmp_path)
    found = lock(tmp_path)
    assert found.level == "ok"
    assert "stale lock of process 4000000" in found.what


def test_another_hosts_lock(tmp_path: Path) -> None:
    leave_holder(tmp_path, host="elsewhere")
    found = lock(tmp_path)
    assert found.level == "problem"
    assert "on elsewhere since" in found.what
    assert "--break-lock" in found.remedy


def test_a_holder_that_cannot_be_read(tmp_path: Path) -> None:
    leave_holder(tmp_path)
    holder_file(tmp_path).write_text("{")
    found = lock(tmp_path)
    assert (found.level, "--break-lock" in found.remedy) == ("problem", True)


def test_a_ledger_that_is_whole(tmp_path: Path) -> None:
    assert "none in" in ledger(tmp_path).what
    Ledger.open(tmp_path).close()
    found = ledger(tmp_path)
    assert (found.level, found.what.endswith("is whole, items: 0")) == ("ok", True)


def test_a_ledger_in_use(tmp_path: Path) -> None:
    """A run has it open, with rows that are in its write-ahead log only."""
    with Ledger.open(tmp_path) as open_ledger:
        open_ledger.begin_run("r", {})
        assert ledger(tmp_path).level == "ok"


def test_a_ledger_of_a_run_that_was_killed_as_it_began(tmp_path: Path) -> None:
    file = tmp_path / ".mlxbatch" / "ledger.sqlite3"
    file.parent.mkdir()
    file.touch()
    assert ledger(tmp_path).level == "ok"


def _garbage(file: Path) -> str:
    file.write_bytes(os.urandom(8192))
    return "is damaged (file is not a database)"


def _torn(file: Path) -> str:
    with file.open("r+b") as opened:
        opened.seek(4096)
        opened.write(b"\xff" * 4096)
    return "is damaged ("


def _newer(file: Path) -> str:
    with sqlite3.connect(file) as database:
        database.execute("PRAGMA user_version = 999")
    database.close()
    return "written by a newer mlxbatch (schema 999"


@pytest.mark.parametrize("spoil", [_garbage, _torn, _newer])
def test_a_damaged_ledger_has_a_way_out(tmp_path: Path, spoil: object) -> None:
    Ledger.open(tmp_path).close()
    file = tmp_path / ".mlxbatch" / "ledger.sqlite3"
    assert callable(spoil)
    words = spoil(file)
    found = ledger(tmp_path)
    assert found.level == "problem"
    assert words in found.what
    assert f"mv {file} {file}.damaged" in found.remedy
