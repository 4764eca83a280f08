"""A run over in/ into out/ as a process of its own, and where it is: for tests that disturb it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from .conftest import program

OUT = Path("out")


def run_log() -> list[dict[str, Any]]:
    """The latest run's events."""
    (log,) = sorted((OUT / ".mlxbatch" / "runs").iterdir())[-1:]
    return [json.loads(line) for line in log.read_text("ascii").splitlines()]


def log_so_far() -> list[dict[str, Any]]:
    """The events of a run that may be writing one, or has not begun to."""
    try:
        return run_log()
    except (ValueError, OSError):
        return []


def slow(*arguments: str, **settings: Any) -> subprocess.Popen[str]:
    """A run that takes its time over each recording, once it has begun to."""
    extra = ["--batch-size", "1", *arguments]
    process = program("transcribe", "in", "-o", "out", *extra, fake={"seconds_per_batch": 0.7, **settings})
    until(lambda: any(event["event"] == "plan" for event in log_so_far()), process)
    return process


def one_is_done() -> bool:
    """Not that its output is there: the ledger's row comes a moment later."""
    return any(event["event"] == "item" for event in log_so_far())


def until(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


def engine(process: subprocess.Popen[str]) -> psutil.Process:
    (child,) = [one for one in psutil.Process(process.pid).children() if "spawn_main" in " ".join(one.cmdline())]
    return child


def outputs() -> dict[str, str]:
    found = (path for path in OUT.rglob("*") if path.is_file() and ".mlxbatch" not in path.parts)
    return {str(path.relative_to(OUT)): path.read_text("utf-8") for path in found}


def nothing_is_left() -> bool:
    """No lock is held and no temporary file is there."""
    scratch = OUT / ".mlxbatch" / "tmp"
    return not (OUT / ".mlxbatch" / "lock.json").exists() and not (scratch.exists() and list(scratch.iterdir()))
