"""The program as a scheduler starts it: no environment to speak of, no terminal, streams that are closed or full."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlxbatch import stdio

from .conftest import ROOT

RUN = "transcribe in -o out"


def cron(arguments: str, redirections: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run over the fake engine with cron's environment alone, by a shell that sees to the redirections."""
    given = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "FAKE_ENGINE": "{}", **environment}
    command = f'exec "{sys.executable}" -m tests.cli.fake_run {arguments} {redirections}'
    return subprocess.run(
        ["/bin/sh", "-c", command], env=given, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )


def outputs() -> list[str]:
    return sorted(str(path.relative_to("out")) for path in Path("out").rglob("*.txt"))


def last_event() -> str:
    (log,) = Path("out/.mlxbatch/runs").iterdir()
    return str(json.loads(log.read_text("ascii").splitlines()[-1])["event"])


def test_the_environment_of_cron(recordings: Path) -> None:
    """No HOME, no USER, no LANG, no TERM."""
    ran = cron(f"{RUN} -v --log-level debug --log-file run.log --metrics-file x.prom")
    assert ran.returncode == 0
    assert ran.stdout == ""
    assert "\x1b" not in ran.stderr + Path("run.log").read_text()
    assert "Traceback" not in ran.stderr
    assert "3 files done, 0 skipped, 0 failed" in ran.stderr
    assert Path("x.prom").exists()
    assert cron(f"{RUN} -q").stderr == ""


def test_a_colour_that_is_forced_is_forced_for_terminals_only(recordings: Path) -> None:
    ran = cron(f"{RUN} -v", FORCE_COLOR="1", TERM="xterm-256color", CLICOLOR_FORCE="1")
    assert ran.returncode == 0
    assert "\x1b" not in ran.stderr + ran.stdout


def test_a_failure_says_so_without_a_traceback(recordings: Path) -> None:
    (recordings / "text.wav").write_text("no recording")
    ran = cron(f"{RUN} -q")
    assert (ran.returncode, ran.stdout) == (1, "")
    (line,) = ran.stderr.splitlines()
    assert line.startswith("mlxbatch: failed: in/text.wav: probe: ")


@pytest.mark.parametrize(
    ("closed", "workers"), [("<&-", 2), (">&-", 2), ("2>&-", 2), ("<&- >&- 2>&-", 2), ("<&- >&- 2>&-", 0)]
)
def test_closed_streams(recordings: Path, closed: str, workers: int) -> None:
    ran = cron(f"{RUN} --json --workers {workers} --log-file run.log", closed)
    assert ran.returncode == 0
    assert outputs() == ["a.txt", "b.txt", "sub/c.txt"]
    assert last_event() == "end"
    assert "Traceback" not in Path("run.log").read_text() + ran.stderr
    if ">&-" in closed.split():
        assert ran.stdout == ""
    else:
        assert [json.loads(line)["event"] for line in ran.stdout.splitlines()] == ["item"] * 3 + ["summary"]
    assert "2>&-" not in closed or ran.stderr == ""


def test_a_closed_input_is_an_empty_list(recordings: Path) -> None:
    ran = cron("transcribe --files-from - -o out", "<&-")
    assert ran.returncode == 0
    assert "nothing to transcribe" in ran.stderr


def test_an_error_with_standard_error_closed_does_not_go_into_the_results(recordings: Path) -> None:
    ran = cron(f"{RUN} --json --profile nope", "2>&-")
    assert (ran.returncode, ran.stdout) == (2, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
@pytest.mark.parametrize(
    ("arguments", "redirection", "code", "words"),
    [
        (RUN, "2>/dev/full", 0, ""),
        (f"{RUN} -v --log-level debug", ">/dev/full", 0, "3 files done"),
        (f"{RUN} --json", ">/dev/full", 3, "the disk is full"),
        (f"{RUN} --dry-run", ">/dev/full", 3, "standard output cannot be written: No space left on device"),
    ],
)
def test_full_disks(recordings: Path, arguments: str, redirection: str, code: int, words: str) -> None:
    """What people read is let go, what programs read is an error."""
    ran = cron(arguments, redirection)
    assert ran.returncode == code
    assert words in ran.stderr
    assert "Traceback" not in ran.stderr
    if code == 0:
        assert len(outputs()) == 3
        assert last_event() == "end"


def test_a_reader_of_standard_error_that_has_gone(recordings: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    given = os.environ | {"PYTHONPATH": str(ROOT), "FAKE_ENGINE": "{}"}
    command = [sys.executable, "-m", "tests.cli.fake_run", *RUN.split(), "-v"]
    ran = subprocess.run(command, env=given, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=writing)
    os.close(writing)
    assert ran.returncode == 0
    assert len(outputs()) == 3


@pytest.fixture
def streams() -> Iterator[None]:
    """Python's own objects back in their place, whatever a test did."""
    before = sys.stdin, sys.stdout, sys.stderr
    yield
    sys.stdin, sys.stdout, sys.stderr = before


def test_streams_that_are_open_stay_as_they_are(streams: None) -> None:
    before = sys.stdin, sys.stdout
    stdio.prepare()
    assert (sys.stdin, sys.stdout) == before
    assert sys.stderr.fileno() == 2
    assert stdio.settle(5) == 5
