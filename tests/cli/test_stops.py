"""Signals wherever a run may be, and a terminal that is closed: down at once, with nothing half-written."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest
import soundfile

from .conftest import ROOT, finish, program
from .running import OUT, log_so_far, nothing_is_left, one_is_done, outputs, run_log, until

IN = Path("in")
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


def stopped(process: subprocess.Popen[str], number: int, until_there: Callable[[], object]) -> str:
    """Send a signal when the run is there: what it said on standard error. It has 10 s."""
    until(until_there, process)
    family = psutil.Process(process.pid).children(recursive=True)
    began = time.monotonic()
    process.send_signal(number)
    ran = finish(process)
    assert time.monotonic() - began < 10
    assert ran.code == CODES[signal.Signals(number)]
    assert "Traceback" not in ran.err
    assert "leaked" not in ran.err
    _, alive = psutil.wait_procs(family, timeout=5)
    assert not alive
    assert nothing_is_left()
    return ran.err


def begun() -> bool:
    return any(event["event"] == "start" for event in log_so_far())


def test_while_it_probes(recordings: Path) -> None:
    for name in range(30_000):
        os.link(IN / "a.wav", IN / f"{name}.wav")
    process = program("transcribe", "in", "-o", "out", fake={})
    stopped(process, signal.SIGINT, begun)
    assert not any(event["event"] == "plan" for event in run_log()), "it was past that"
    assert outputs() == {}


def test_while_it_decodes_an_hour_of_audio(recordings: Path) -> None:
    """A file that takes next to no room: what was never written of it reads as zeros."""
    soundfile.write(IN / "long.wav", np.zeros(1000, np.int16), 44_100, "PCM_16")
    size = 2 * 3600 * 44_100
    header = bytearray((IN / "long.wav").read_bytes()[:44])
    header[4:8] = (36 + size).to_bytes(4, "little")
    header[40:44] = size.to_bytes(4, "little")
    (IN / "long.wav").write_bytes(header)
    os.truncate(IN / "long.wav", 44 + size)
    process = program("transcribe", "in", "-o", "out", fake={})
    stopped(process, signal.SIGTERM, lambda: any(event["event"] == "plan" for event in log_so_far()))
    assert "long.txt" not in outputs()


def test_a_terminal_that_is_closed(recordings: Path) -> None:
    """Its process group gets SIGHUP, and whatever is said from then on fails."""
    process, terminal = _in_a_terminal()
    until(one_is_done, process)
    family = psutil.Process(process.pid).children(recursive=True)
    os.close(terminal)
    assert process.wait(10) == 129
    _, alive = psutil.wait_procs(family, timeout=5)
    assert not alive, "a child lives on"
    assert nothing_is_left()
    assert len(outputs()) == 1
    assert (run_log()[-1]["event"], run_log()[-1]["outcome"]) == ("end", "HungUp: hung up")


def _in_a_terminal() -> tuple[subprocess.Popen[str], int]:
    """A run that leads a session with a terminal of its own, and the terminal's other side."""
    ours, theirs = pty.openpty()

    def lead() -> None:
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    environment = {"PYTHONPATH": str(ROOT), "FAKE_ENGINE": json.dumps({"seconds_per_batch": 0.9}), "TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cli.fake_run", "transcribe", "in", "-o", "out", "--batch-size", "1"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=os.environ | environment,
        preexec_fn=lead,
        text=True,
    )
    os.close(theirs)
    return process, ours


# ---- where nothing can be said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_standard_error_on_a_full_disk_does_not_end_a_run(recordings: Path) -> None:
    with Path("/dev/full").open("w") as full:
        code = _run_with("--verbose", stderr=full)
    assert code == 0
    assert len(outputs()) == 3


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_results_on_a_full_disk_do(recordings: Path) -> None:
    with Path("/dev/full").open("w") as full:
        assert _run_with("--json", "--quiet", stdout=full) == 3
    assert nothing_is_left()


def test_without_standard_error_it_works(recordings: Path) -> None:
    code = _run_with(shell="exec 2>&-; exec ")
    assert code == 0
    assert len(outputs()) == 3
    assert OUT.exists()


def _run_with(*arguments: str, shell: str = "exec ", **streams: object) -> int:
    command = [sys.executable, "-m", "tests.cli.fake_run", "transcribe", "in", "-o", "out", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    quoted = shell + subprocess.list2cmdline(command)
    done = subprocess.run(["sh", "-c", quoted], env=environment, stdin=subprocess.DEVNULL, timeout=60, **streams)  # type: ignore[call-overload]
    return int(done.returncode)
