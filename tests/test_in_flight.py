"""What was in flight when the program died: counted, in real processes that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mlxbatch.errors import SetupError
from mlxbatch.history import History
from mlxbatch.in_flight import DEADLY
from mlxbatch.ledger import Infer, Ledger, Quarantined
from mlxbatch.ledger_rows import key_of
from mlxbatch.types import Item
from tests.ledgers import Place

DIE = """
import os, signal, sys
from pathlib import Path
from mlxbatch.ledger import Ledger
from mlxbatch.types import Item
root, source, names, then = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3].split(), sys.argv[4]
items = {name: Item(name, source, Path(name)) for name in names}
ledger = Ledger.open(root)
ledger.begin_run("r%d" % os.getpid(), {})
with ledger.at_risk(list(items.values())):
    exec(then)
    os.kill(os.getpid(), signal.SIGKILL)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.make(tmp_path)


def die(place: Place, names: str = "a", then: str = "") -> None:
    """A run that dies with these items in flight."""
    arguments = [sys.executable, "-c", DIE, str(place.root), str(place.source), names, then]
    assert subprocess.run(arguments, check=False).returncode == -signal.SIGKILL


def deaths(place: Place, *names: str) -> list[int]:
    with Ledger.open(place.root) as ledger:
        found = ledger.suspects()
        return [found.get(key_of(place.other(name)), 0) for name in names or ("a",)]


def test_what_was_in_flight_when_the_program_died_is_counted_once(place: Place) -> None:
    assert deaths(place) == [0]
    die(place, "a b")
    assert deaths(place, "a", "b", "c") == [1, 1, 0]
    assert deaths(place, "a", "b", "c") == [1, 1, 0]
    die(place, "b c")
    assert deaths(place, "a", "b", "c") == [1, 2, 1]
    assert place.decide() == Infer("new")


def test_what_came_to_its_end_is_no_suspect(place: Place) -> None:
    die(place, "a b c", "ledger.failed(items['b'], 'decode', 'x')")
    assert deaths(place, "a", "b", "c") == [1, 0, 1]
    with Ledger.open(place.root) as ledger:
        place.done_in(ledger)
        ledger.failed(place.other("c"), "decode", "x")
    assert deaths(place, "a", "c") == [0, 0]


@pytest.mark.parametrize("end", ["ledger.end_run('r%d' % os.getpid(), {})", "ledger.close()"])
def test_a_run_that_ends_in_order_leaves_no_suspects_and_clears_none(place: Place, end: str) -> None:
    die(place, "a")
    die(place, "a b", end)
    assert deaths(place, "a", "b") == [1, 0]


def test_an_exception_is_an_end_in_order(place: Place) -> None:
    def interrupted() -> None:
        with Ledger.open(place.root) as ledger, ledger.at_risk([place.item]):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert deaths(place) == [0]


def test_whoever_only_looks_counts_nothing(place: Place) -> None:
    with (
        Ledger.open(place.root) as ledger,
        ledger.at_risk([place.item]),
        Ledger.open(place.root, read_only=True) as looking,
        History.open(place.root),
    ):
        assert looking.suspects() == {}
    die(place)
    with Ledger.open(place.root, read_only=True) as looking:
        assert looking.suspects() == {}
    assert deaths(place) == [1]


def test_a_mark_may_be_made_on_any_thread(place: Place) -> None:
    die(
        place,
        "a",
        "import threading; risk = ledger.at_risk([items['a']]); "
        "t = threading.Thread(target=risk.__enter__); t.start(); t.join()",
    )
    assert deaths(place) == [1]


def test_what_survives_is_no_suspect_and_one_that_was_stays_one(place: Place) -> None:
    die(place, "a")
    with Ledger.open(place.root) as ledger:
        with ledger.at_risk([place.item, place.other("b")]):
            assert ledger._database.fetch("SELECT live FROM in_flight") == [(1,), (1,)]
        assert ledger.suspects() == {key_of(place.item): 1}
    die(place, "c")
    assert deaths(place, "a", "b", "c") == [1, 0, 1]


def test_after_too_many_deaths_it_is_quarantined(place: Place) -> None:
    for count in range(1, DEADLY):
        die(place, "a b" if count == 1 else "a")
        assert deaths(place) == [count]
        assert place.decide() == Infer("new")
    die(place)
    assert place.decide() == Quarantined("quarantined: in flight when the program died 5 times")
    with History.open(place.root) as history:
        assert history.status() == {"done": 0, "failed": 0, "quarantined": 1}
    with place.database() as database:
        rows = database.execute("SELECT stage, error, attempts, status FROM items").fetchall()
    assert rows == [("run", "in flight when the program died 5 times", 1, "quarantined")]


def test_asked_for_again_one_more_death_is_enough(place: Place) -> None:
    for _ in range(DEADLY):
        die(place)
    assert place.decide(retry_quarantined=True) == Infer("--retry-quarantined")
    assert deaths(place) == [DEADLY]
    die(place)
    assert isinstance(place.decide(), Quarantined)
    place.source.write_bytes(b"other")
    assert place.decide() == Infer("content changed")
    die(place)
    assert isinstance(place.decide(), Quarantined)
    place.done()
    assert deaths(place) == [0]


def test_a_deadly_file_that_is_gone_is_no_reason_to_stop(place: Place) -> None:
    place.source.rename(place.source.with_name("away"))
    for _ in range(DEADLY):
        die(place)
    assert place.decide() == Infer("source cannot be read: No such file or directory")
    place.source.with_name("away").rename(place.source)
    assert place.decide() == Infer("content changed")


def test_sources_of_any_bytes_from_wherever_the_run_was_begun(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = Item("odd", Path(os.fsdecode(b"\xff\n.wav")), Path("odd"))
    monkeypatch.chdir(place.source.parent)
    with Ledger.open(place.root) as ledger, ledger.at_risk([odd]):
        stored = ledger._database.fetch("SELECT source FROM in_flight")
    assert stored == [(os.fsencode(place.source.parent) + b"/\xff\n.wav",)]


def test_a_mark_that_cannot_be_written_is_fatal(place: Place) -> None:
    with Ledger.open(place.root) as ledger:
        ledger._database.connection.execute("PRAGMA query_only = ON")
        with pytest.raises(SetupError, match="cannot write"), ledger.at_risk([place.item]):
            pass
        ledger._database.connection.execute("PRAGMA query_only = OFF")
