"""What a cron environment lacks, each in a real process or with a real variable."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from mlxbatch.doctor import schedule
from mlxbatch.doctor.finding import Case

ROOT = Path(__file__).resolve().parents[2]


def in_process(expression: str, *, user: int | None = None, **environment: str) -> str:
    """A finding of a Python with just this environment, as "level: what -> remedy"."""
    code = f"from mlxbatch.doctor import schedule as s; f = {expression}; print(f.level + ':', f.what, '->', f.remedy)"
    command = [sys.executable, "-c", code]
    if user is not None:
        # In the same process, so that the interpreter and its libraries need not be readable by that user.
        become = f"import platformdirs, psutil, os; from mlxbatch.doctor import schedule; os.setuid({user}); "
        command = [sys.executable, "-c", become + code]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(ROOT)} | environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_command_for_a_crontab_runs_in_an_empty_environment() -> None:
    command = schedule.command_line()
    assert command.startswith("/")
    done = subprocess.run(
        ["/bin/sh", "-c", f"{command} --version"], env={"PATH": schedule.CRON_PATH}, capture_output=True, text=True
    )
    assert done.stdout.startswith("mlxbatch ")


def test_a_path_with_a_space_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "my tools" / "mlxbatch"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script.with_name("python")))
    assert shlex.split(schedule.command_line()) == [str(script)]


def test_without_a_script_python_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert schedule.command_line() == f"{tmp_path / 'python'} -m mlxbatch"


def test_on_crons_path_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "CRON_PATH", str(tmp_path))
    missing = schedule.command()
    assert (missing.level, missing.remedy) == ("note", f"in the crontab: {schedule.command_line()}")
    (tmp_path / "mlxbatch").write_text("#!/bin/sh\n")
    (tmp_path / "mlxbatch").chmod(0o755)
    assert schedule.command().level == "ok"


def test_home() -> None:
    assert in_process("s.home()", HOME="/root").startswith("ok: HOME is set")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user: root only")
def test_a_user_without_a_home() -> None:
    found = in_process("s.home()", user=54321)
    assert found.startswith("warning: HOME is not set, and this user has none")
    assert "mlxbatch-54321" in found
    assert "MLXBATCH_CACHE" in found


@pytest.mark.skipif(sys.platform == "darwin", reason="there it is always UTF-8")
def test_a_locale_that_is_not_utf8() -> None:
    assert in_process("s.encoding()", LC_ALL="C.UTF-8").startswith("ok: text is utf-8 (LC_ALL=C.UTF-8)")
    assert in_process("s.encoding()").startswith("ok: text is utf-8 ")  # as under cron
    spoiled = in_process("s.encoding()", LC_ALL="POSIX", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    assert spoiled.startswith("warning: text is ascii")
    assert "LANG=C.UTF-8" in spoiled


def test_the_time_zone(tmp_path: Path) -> None:
    assert in_process("s.time_zone()", TZ="Asia/Tokyo").startswith("note: TZ is set here (Asia/Tokyo)")
    missing = in_process(f"s.time_zone(__import__('pathlib').Path({str(tmp_path / 'none')!r}))")
    assert "times in a crontab are UTC" in missing


def test_standard_input() -> None:
    assert in_process("s.standard_input()").startswith("ok: standard input is no terminal")


def test_variables_that_a_job_would_lack_are_named_without_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("MLXBATCH_") or name in schedule._READ:
            monkeypatch.delenv(name)
    (found,) = schedule.variables()
    assert found.level == "ok"
    monkeypatch.setenv("MLXBATCH_MODEL", "whisper-base")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:secret@proxy")
    (found,) = schedule.variables()
    assert (found.level, found.what) == ("note", "set here, not under cron: HTTPS_PROXY, MLXBATCH_MODEL")
    assert "crontab" in found.remedy


class Process:
    def __init__(self, name: str) -> None:
        self.info = {"name": name}


@pytest.mark.parametrize(
    ("names", "installed", "level", "words"),
    [
        (["bash", "cron"], True, "ok", "a cron daemon runs"),
        (["bash"], True, "note", "does not run"),
        (["bash"], False, "note", "no cron on this machine"),
    ],
)
def test_the_daemon(monkeypatch: pytest.MonkeyPatch, names: list[str], installed: bool, level: str, words: str) -> None:
    monkeypatch.setattr(psutil, "process_iter", lambda attributes: [Process(name) for name in names])
    monkeypatch.setattr(schedule.shutil, "which", lambda name, path: "/usr/sbin/cron" if installed else None)
    (found,) = schedule._daemon()
    assert (found.level, words in found.what) == (level, True)


def test_on_macos_it_speaks_of_launchd_and_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule.sys, "platform", "darwin")
    text = "\n".join(f"{found.what} {found.remedy}" for found in schedule.check(Case()))
    for word in ("examples/launchd", "pmset repeat", "caffeinate", "Full Disk Access"):
        assert word in text
