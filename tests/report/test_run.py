"""Which run is meant, what state it is in, and what is left of it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from mlxbatch.errors import UsageError
from mlxbatch.report import run as run_module
from mlxbatch.report.run import choose, read_history

from .conftest import busy_night
from .nights import Night, night_id, write

IDS = ["20261129T220000Z-aaaaaa", "20261130T100000Z-bbbbbb", "20261130T220000Z-cccccc"]


@pytest.mark.parametrize(
    ("wanted", "place"), [("latest", 2), (IDS[1], 1), ("20261129", 0), ("20261130T22", 2), ("20261130T1", 1)]
)
def test_a_run_by_its_id_or_the_beginning_of_it(wanted: str, place: int) -> None:
    assert choose(wanted, IDS) == IDS[place]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("20261130", ["begins 2 runs", IDS[1], IDS[2], "write more"]),
        ("20261130T220000Z-ccccc0", [f"did you mean '{IDS[2]}'?"]),
        ("yesterday", ["no run 'yesterday'", *IDS]),
        ("", ["no run ''"]),
        ("\x1b[31m", ["\\x1b[31m"]),
    ],
)
def test_a_run_that_is_not_there(wanted: str, words: list[str]) -> None:
    with pytest.raises(UsageError) as raised:
        choose(wanted, IDS)
    assert all(word in str(raised.value) for word in words), raised.value


def test_the_latest_run_and_those_before_it(nights: Path) -> None:
    history = read_history(nights)
    assert history.run.id == night_id(9)
    assert [run.id for run in history.earlier] == [night_id(day) for day in range(1, 9)]
    assert [run.state for run in history.earlier] == ["finished"] * 3 + ["killed"] + ["finished"] * 4
    assert history.run.log is not None
    assert all(run.log is None for run in history.earlier)


def test_a_run_in_the_middle_is_seen_beside_the_earlier_ones_only(nights: Path) -> None:
    history = read_history(nights, "20261103")
    assert (history.run.id, len(history.earlier)) == (night_id(3), 2)


def test_only_so_many_runs_are_looked_at(nights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "EARLIER", 3)
    assert [run.id for run in read_history(nights).earlier] == [night_id(day) for day in (6, 7, 8)]


def test_a_run_whose_log_was_removed_has_the_ledgers_figures(tmp_path: Path) -> None:
    write(tmp_path, busy_night())
    whole = read_history(tmp_path).run
    for log in (tmp_path / ".mlxbatch" / "runs").iterdir():
        log.unlink()
    run = read_history(tmp_path).run
    assert run.log is None
    assert run.state == "finished"
    assert (run.figures.done, run.figures.failed, run.figures.rtfx) == (24, 6, whole.figures.rtfx)
    assert len(run.failures) == 6
    assert run.figures.known
    assert (run.figures.deaths, run.figures.renewals, run.figures.leaks, run.figures.quarantined) == (1, 1, 2, 2)


def test_a_killed_run_has_left_what_it_found(tmp_path: Path) -> None:
    write(tmp_path, Night(night_id(1), done=0, left=40, end=False), Night(night_id(2), end=False))
    for night, left in ((night_id(1), 40), (night_id(2), 0)):
        path = tmp_path / ".mlxbatch" / "runs" / f"{night}.jsonl"
        lines = [line for line in path.read_text().splitlines(keepends=True) if '"event": "plan"' not in line]
        path.write_text("".join(lines))
        assert read_history(tmp_path, night).run.figures.left == left


def test_a_killed_run_without_a_log_is_not_known(tmp_path: Path) -> None:
    write(tmp_path, Night(night_id(1), end=False))
    next((tmp_path / ".mlxbatch" / "runs").iterdir()).unlink()
    run = read_history(tmp_path).run
    assert (run.state, run.figures.known, run.figures.rtfx) == ("killed", False, None)


def test_a_log_whose_ledger_was_moved_away_is_a_run(tmp_path: Path) -> None:
    write(tmp_path, Night(night_id(1)), Night(night_id(2), end=False))
    (tmp_path / ".mlxbatch" / "ledger.sqlite3").rename(tmp_path / "damaged")
    (tmp_path / ".mlxbatch" / "runs" / f"{night_id(3)}.jsonl").write_bytes(b"")
    history = read_history(tmp_path, night_id(2))
    assert history.run.state == "killed"
    assert [(run.id, run.state) for run in history.earlier][-1] == (night_id(1), "finished")
    assert history.earlier[-1].facts["model"] == "whisper-base"
    latest = read_history(tmp_path, night_id(3)).run
    assert (latest.began, latest.state) == ("2026-11-03T22:00:00+00:00", "killed")


def test_a_stopped_run_says_what_ended_it(tmp_path: Path) -> None:
    write(tmp_path, Night(night_id(1), outcome="SetupError: the disk is full"))
    run = read_history(tmp_path).run
    assert (run.state, run.outcome) == ("stopped", "SetupError: the disk is full")


@pytest.mark.parametrize("place", ["none", "empty"])
def test_a_place_without_runs_is_no_place_to_report_on(tmp_path: Path, place: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"no such directory|no runs in .*empty"):
        read_history(tmp_path / place)


# ---- killed, or going on


@pytest.fixture
def living() -> Iterator[psutil.Process]:
    """Another process, that lives as long as the test."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield psutil.Process(process.pid)
    process.communicate(b"\n", timeout=30)


def _hold(out: Path, pid: int, born: float, host: str = "", started: str = "2026-11-01T21:59:59+00:00") -> None:
    holder = {"pid": pid, "host": host or socket.gethostname(), "started": started, "command": "c", "born": born}
    (out / ".mlxbatch" / "lock.json").write_text(json.dumps(holder))


def _states(out: Path) -> list[str]:
    history = read_history(out)
    return [run.state for run in (*history.earlier, history.run)]


def test_a_run_without_an_end_goes_on_while_its_process_lives(tmp_path: Path, living: psutil.Process) -> None:
    write(tmp_path, Night(night_id(1), end=False), Night(night_id(2), end=False))
    assert _states(tmp_path) == ["killed", "killed"]
    _hold(tmp_path, living.pid, living.create_time())
    assert _states(tmp_path) == ["killed", "going on"]
    _hold(tmp_path, living.pid, living.create_time() - 100)  # the number was used again
    assert _states(tmp_path) == ["killed", "killed"]
    # Another run has the lock and has not begun yet: the last one with a row is not it.
    _hold(tmp_path, living.pid, living.create_time(), started="2026-11-03T00:00:00+00:00")
    assert _states(tmp_path) == ["killed", "killed"]


def test_whether_a_process_of_another_host_lives_cannot_be_told(tmp_path: Path) -> None:
    write(tmp_path, Night(night_id(1), end=False))
    _hold(tmp_path, os.getpid(), 0.0, host="elsewhere")
    history = read_history(tmp_path)
    assert history.run.state == "unknown"
    assert history.lock.holder is not None
    assert "elsewhere" in str(history.lock.holder)


def test_a_holder_file_that_says_nothing_is_nobody(tmp_path: Path) -> None:
    write(tmp_path, Night(night_id(1), end=False))
    (tmp_path / ".mlxbatch" / "lock.json").write_text("{")
    assert _states(tmp_path) == ["killed"]
