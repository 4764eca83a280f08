"""What the ledger tells whoever only reads: runs and counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlxbatch.errors import LedgerError, SetupError
from mlxbatch.history import History
from mlxbatch.ledger import Ledger
from tests.ledgers import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.make(tmp_path)


def test_where_no_run_has_been_it_says_so_and_makes_nothing(place: Place) -> None:
    with pytest.raises(SetupError, match=rf"no run has been at {place.root}: there is no .*ledger\.sqlite3"):
        History.open(place.root)
    assert list(place.root.iterdir()) == []


def test_runs_come_oldest_first_and_those_without_an_end_too(place: Place) -> None:
    with Ledger.open(place.root) as ledger:
        for name in ("b", "a", "c"):
            ledger.begin_run(name, {"model": name})
            if name != "c":
                ledger.end_run(name, {"done": 1})
    with place.database() as database:
        database.execute("UPDATE runs SET started_at = '2020-01-01T00:00:00+00:00' WHERE id = 'a'")
    with History.open(place.root) as history:
        runs = history.runs()
    assert [(run.id, run.facts["model"], run.outcome) for run in runs] == [
        ("a", "a", {"done": 1}),
        ("b", "b", {"done": 1}),
        ("c", "c", None),
    ]
    assert runs[1].ended_at is not None
    assert runs[1].started_at <= runs[1].ended_at
    assert runs[2].ended_at is None


def test_counts(place: Place) -> None:
    with Ledger.open(place.root) as ledger:
        place.done_in(ledger)
        ledger.failed(place.other("f"), "decode", "no sound")
        ledger.failed(place.other("f"), "decode", "no sound at all")
        ledger.failed(place.other("q"), "infer", "killed", quarantined=True)
    with History.open(place.root) as history:
        assert history.status() == {"done": 1, "failed": 1, "quarantined": 1}


def test_a_new_ledger_is_empty(place: Place) -> None:
    Ledger.open(place.root).close()
    with History.open(place.root) as history:
        assert history.runs() == []
        assert history.status() == {"done": 0, "failed": 0, "quarantined": 0}


def test_it_reads_on_while_a_run_writes(place: Place) -> None:
    with Ledger.open(place.root) as ledger, History.open(place.root) as history:
        ledger.begin_run("r", {})
        assert [run.id for run in history.runs()] == ["r"]
        place.done_in(ledger)
        assert history.status()["done"] == 1


@pytest.mark.parametrize("facts", ["{", "[]", "7"])
def test_facts_that_are_none_are_damage(place: Place, facts: str) -> None:
    with Ledger.open(place.root) as ledger:
        ledger.begin_run("r", {})
    with place.database() as database:
        database.execute("UPDATE runs SET facts = ?", (facts,))
    with History.open(place.root) as history, pytest.raises(LedgerError, match="a run's facts are no JSON"):
        history.runs()


def test_what_is_no_database_is_damaged(place: Place) -> None:
    place.done()
    place.file.write_bytes(b"no database" * 1000)
    with pytest.raises(LedgerError, match="file is not a database"):
        History.open(place.root)
