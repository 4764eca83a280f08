"""`mlxbatch doctor` as it is called: exit codes, text, JSON, a terminal, an empty environment."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from mlxbatch.cli.doctor import print_text
from mlxbatch.doctor import Finding, device
from mlxbatch.ledger import Ledger

from .conftest import ROOT, Cli, Ran, finish, program

LEVELS = {"ok", "note", "warning", "problem"}
FINDINGS = [
    Finding("ok", "device", "fine"),
    Finding("problem", "permissions", "out: cannot write", "name another"),
    Finding("note", "cron", "by the way"),
]


def doctor(*arguments: str | Path, **environment: str) -> Ran:
    return finish(program("doctor", *arguments, **environment))


def test_from_end_to_end(place: Path) -> None:
    Ledger.open(place / "out").close()
    ran = doctor(place / "out", "--input", place, "--json")
    assert ran.code == 0, ran.out
    assert ran.err == ""
    *findings, summary = ran.records
    assert {found["event"] for found in findings} == {"finding"}
    assert {found["level"] for found in findings} <= LEVELS
    topics = {found["topic"] for found in findings}
    assert topics == {
        *("versions", "profile", "device", "limits", "models", "disk", "permissions", "lock", "ledger", "cron"),
    }
    assert summary["exit_code"] == 0
    assert summary["problem"] == 0
    assert sum(summary[level] for level in LEVELS) == len(findings)


@pytest.fixture
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the device's self-test, which takes a second."""
    monkeypatch.setattr(device, "check", lambda case: iter([Finding("ok", "device", "not asked")]))


@pytest.mark.usefixtures("no_device")
def test_a_problem_is_exit_code_3_with_its_remedy(cli: Cli, place: Path) -> None:
    (place / "out" / ".mlxbatch").mkdir(parents=True)
    (place / "out" / ".mlxbatch" / "ledger.sqlite3").write_bytes(b"no database" * 1000)
    ran = cli("doctor", "out")
    assert ran.code == 3
    lines = ran.out.splitlines()
    (line,) = (number for number, text in enumerate(lines) if " problem " in text)
    assert lines[line].startswith("ledger ")
    assert "mv out/.mlxbatch/ledger.sqlite3 out/.mlxbatch/ledger.sqlite3.damaged" in lines[line + 1]
    assert lines[-1].startswith("mlxbatch: 1 problem, ")
    assert ran.err == ""


def test_a_profile_that_is_wrong_does_not_stop_the_others(cli: Cli, place: Path) -> None:
    (place / "mlxbatch.toml").write_text("nonsense = 1\n")
    ran = cli("doctor", "out", "--json")
    assert ran.code == 3
    problems = [record for record in ran.records if record.get("level") == "problem"]
    assert [problem["topic"] for problem in problems] == ["profile"]
    assert any("GFLOPS" in record.get("what", "") for record in ran.records)
    assert {"ledger", "cron"} <= {record.get("topic") for record in ran.records}


def test_in_an_empty_environment_whose_locale_cannot_print_a_path(place: Path) -> None:
    environment = {"PYTHONPATH": str(ROOT), "LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "mlxbatch", "doctor", os.fsencode("ö")]
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, cwd=place
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "HOME is not set" in done.stdout
    assert "\x1b" not in done.stdout
    if sys.platform != "darwin":
        assert "text is ascii" in done.stdout


def test_plain_text_is_aligned() -> None:
    stream = io.StringIO()
    print_text(FINDINGS, 3, stream)
    assert stream.getvalue().splitlines() == [
        "device       ok       fine",
        "permissions  problem  out: cannot write",
        "                      -> name another",
        "cron         note     by the way",
        "mlxbatch: 1 problem, 0 warnings, 1 note; exit code 3",
    ]


@pytest.mark.parametrize("plain", [False, True], ids=["colours", "NO_COLOR"])
def test_in_a_terminal(monkeypatch: pytest.MonkeyPatch, plain: bool) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if plain:
        monkeypatch.setenv("NO_COLOR", "1")
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w", encoding="utf-8") as stream:
        print_text(FINDINGS, 3, stream)
        text = os.read(leader, 1 << 16).decode()
    os.close(leader)
    assert "→ name another" in text
    assert ("\x1b[1;31mproblem" in text) is not plain
    assert "31m" not in text if plain else True


@pytest.mark.usefixtures("no_device")
def test_a_locked_output_is_told_and_let_be(cli: Cli, place: Path) -> None:
    holder = {"pid": 1, "host": "elsewhere", "started": "2026-11-30T01:00:00+00:00", "command": "x", "born": 1.0}
    (place / "out" / ".mlxbatch").mkdir(parents=True)
    (place / "out" / ".mlxbatch" / "lock.json").write_text(json.dumps(holder))
    ran = cli("doctor", "out")
    assert ran.code == 3
    assert "held by process 1 on elsewhere" in ran.out
    assert json.loads((place / "out" / ".mlxbatch" / "lock.json").read_text()) == holder


def test_help_teaches(cli: Cli) -> None:
    ran = cli("doctor", "--help")
    assert ran.code == 0
    assert ran.out.count("mlxbatch doctor") >= 3
    assert "Exit codes: 0 no problem, 3" in ran.out
