"""Lines that people read: levels, the log file, and what becomes of it when it is rotated or its disk is full."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlxbatch.cli import log as log_module
from mlxbatch.cli.log import LEVELS, Line, LogFile, Sink, make_log
from mlxbatch.errors import SetupError

from .conftest import Cli, finish, program

RUN = ("transcribe", "in", "-o", "out", "--workers", "0")
AT = "2026-12-01T02:22:24Z"
ENTRY = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) (debug|info|warning|error) +mlxbatch\[(\d+)\]: (.*)")


def entries(path: Path) -> list[tuple[str, str]]:
    """(level, text) of each line; every line is a whole one."""
    found = [ENTRY.fullmatch(line) for line in path.read_text("utf-8").splitlines()]
    assert all(found), path.read_text("utf-8")
    return [(match[2], match[4]) for match in found if match]


@pytest.mark.parametrize("least", LEVELS)
def test_a_sink_takes_its_level_and_above(least: log_module.Level) -> None:
    taken: list[Line] = []
    everything: list[Line] = []
    log = make_log([Sink(least, taken.append), Sink("debug", everything.append)])
    for level in LEVELS:
        getattr(log, level)(f"a {level} line")
    assert [line.level for line in everything] == list(LEVELS)
    assert [line.level for line in taken] == list(LEVELS[LEVELS.index(least) :])
    assert {line.text for line in taken} <= {f"a {level} line" for level in LEVELS}


def test_a_line_is_one_line_and_moves_no_cursor() -> None:
    taken: list[Line] = []
    make_log([Sink("info", taken.append)]).info("50 % of two\nlines \x1b[2J é", passing=True)
    (line,) = taken
    assert line.text == "50 % of two\\nlines \\x1b[2J é"
    assert line.passing
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", line.at)


def test_lines_are_appended_with_time_level_and_process(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("what was there\n")
    log = LogFile(path)
    log.take(Line(AT, "warning", "caf\u00e9"))
    log.take(Line(AT, "info", os.fsdecode(b"\xff")))
    assert path.read_bytes().splitlines() == [
        b"what was there",
        f"{AT} warning mlxbatch[{os.getpid()}]: café".encode(),
        f"{AT} info    mlxbatch[{os.getpid()}]: \\udcff".encode(),
    ]


def test_a_file_that_was_moved_away_or_emptied_is_begun_again(tmp_path: Path) -> None:
    path, moved = tmp_path / "log", tmp_path / "log.1"
    log = LogFile(path)
    log.take(Line(AT, "info", "one"))
    path.rename(moved)
    log.take(Line(AT, "info", "two"))
    os.truncate(moved, 0)
    log.take(Line(AT, "info", "three"))
    assert moved.read_bytes() == b""
    assert entries(path) == [("info", "two"), ("info", "three")]


def test_a_disk_that_is_full_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    room = [5]  # bytes that the disk still takes
    write = os.write

    def limited(file: int, content: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken, room[0] = min(room[0], len(content)), 0
        return write(file, content[:taken])

    log = LogFile(tmp_path / "log")
    with monkeypatch.context() as patched:
        patched.setattr(log_module.os, "write", limited)
        for text in ("one", "two", "three"):
            log.take(Line(AT, "info", text))
    log.take(Line(AT, "info", "four"))
    torn, *whole = (tmp_path / "log").read_text().splitlines()
    assert torn == AT[:5]
    assert [line.split("]: ")[1] for line in whole] == [
        "3 lines are missing here: they could not be written",
        "four",
    ]
    (said,) = capfd.readouterr().err.splitlines()
    assert f"cannot write the log file {tmp_path / 'log'}: No space left on device; the run goes on" in said


@pytest.mark.parametrize(("name", "cause"), [(".", "Is a directory"), ("none/log", "No such file or directory")])
def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, name: str, cause: str) -> None:
    with pytest.raises(SetupError, match=re.escape(f"cannot write the log file {tmp_path / name}: {cause}")):
        LogFile(tmp_path / name)


# --- the command line ------------------------------------------------------------------------------------------------


def test_a_run_s_log_file_has_what_standard_error_has(cli: Cli, fake: dict[str, object], recordings: Path) -> None:
    (recordings / "text.wav").write_text("no recording")
    ran = cli(*RUN, "--log-file", "run.log")
    logged = entries(Path("run.log"))
    shown = [line.removeprefix("mlxbatch: ") for line in ran.err.splitlines() if line.startswith("mlxbatch: ")]
    assert [text for _, text in logged] == shown
    assert ("info", "loading whisper-base") in logged
    assert next(text for level, text in logged if level == "error").startswith("failed: in/text.wav: probe: ")
    assert logged[-1][1].startswith("3 files done, 0 skipped, 1 failed")


def test_runs_share_a_file_and_quiet_ones_write_to_it(cli: Cli, fake: dict[str, object], recordings: Path) -> None:
    for _ in range(2):
        assert cli(*RUN, "-q", "--log-file", "run.log").err == ""
    ends = [text for _, text in entries(Path("run.log")) if "skipped, " in text]
    assert [end.split(" in ")[0] for end in ends] == [
        "3 files done, 0 skipped, 0 failed",
        "0 files done, 3 skipped, 0 failed",
    ]


def test_levels(cli: Cli, fake: dict[str, object], recordings: Path, place: Path) -> None:
    (recordings / "text.wav").write_text("no recording")
    shown = {level: cli(*RUN, "--force", "--log-level", level).err.splitlines() for level in LEVELS}
    assert len(shown["error"]) == 1
    assert shown["error"][0].startswith("mlxbatch: failed: in/text.wav: probe: ")
    assert set(shown["error"]) <= set(shown["warning"])
    assert "mlxbatch: loading whisper-base" in shown["info"]
    assert "mlxbatch: done: in/a.wav (0:01)" not in shown["info"]
    assert {"mlxbatch: done: in/a.wav (0:01)", "mlxbatch: the engine is closed"} <= set(shown["debug"])


def test_the_environment_says_where_and_what(
    cli: Cli, fake: dict[str, object], recordings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLXBATCH_LOG_FILE", "run.log")
    monkeypatch.setenv("MLXBATCH_LOG_LEVEL", "debug")
    assert cli(*RUN, "-q").code == 0
    assert "debug" in {level for level, _ in entries(Path("run.log"))}


def test_a_level_that_does_not_exist(cli: Cli, recordings: Path) -> None:
    ran = cli(*RUN, "--log-level", "loud")
    assert ran.code == 2
    assert all(word in ran.error for word in ("--log-level", "'loud'", "warning"))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--profile", "nope"], 2, "error: --profile: unknown profile 'nope'"),
        (["--language", "germn"], 2, "'germn'"),
        (["--model", "whisper-bas"], 3, "did you mean 'whisper-base'?"),
    ],
)
def test_what_ends_a_run_is_the_last_line(
    cli: Cli, recordings: Path, arguments: list[str], code: int, words: str
) -> None:
    ran = cli(*RUN, "--log-file", "run.log", *arguments)
    assert ran.code == code
    level, text = entries(Path("run.log"))[-1]
    assert level == "error"
    assert words in text
    assert f"mlxbatch: {text}" == ran.error


def test_a_log_that_cannot_be_written_is_found_before_anything_is_done(cli: Cli, recordings: Path) -> None:
    ran = cli(*RUN, "--log-file", "none/run.log", "--profile", "no-such-profile")
    assert ran.code == 3
    assert "cannot write the log file none/run.log: No such file or directory" in ran.error
    assert not Path("out").exists()


def test_a_dry_run_logs_nothing(cli: Cli, fake: dict[str, object], recordings: Path) -> None:
    assert cli(*RUN, "--dry-run", "--log-file", "run.log", "--metrics-file", "x.prom").code == 0
    assert not Path("run.log").exists()
    assert not Path("x.prom").exists()


@pytest.fixture
def full_disk(place: Path) -> Iterator[Path]:
    """A file system that has no room for one byte more."""
    folder = place / "full"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("this user cannot mount")
    try:
        (folder / "ballast").write_bytes(b"x" * 4096)
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="needs root on Linux")
def test_a_log_on_a_disk_that_is_really_full(recordings: Path, full_disk: Path) -> None:
    ran = finish(program(*RUN, "--json", "-v", "--log-file", full_disk / "run.log", fake={}))
    assert ran.code == 0
    assert (ran.summary["done"], ran.summary["failed"]) == (3, 0)
    assert ran.err.count("cannot write the log file") == 1
    assert (full_disk / "run.log").read_bytes() == b""
