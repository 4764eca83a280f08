"""Programs run to their end and measured as whole processes: seconds, and the peak memory of the largest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from mlxbatch.models.cache import ENVIRONMENT as CACHE

ROOT = Path(__file__).resolve().parent.parent
# Whoever sets these means other programs: here every side has its own defaults, or what it is given by name.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class RunFailed(Exception):
    """A program that was to be measured did not end well: which, and its last word, in one line."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a program: seconds from its start to its end, `peak_bytes` resident in its largest process."""

    wall: float
    peak_bytes: int
    output: str
    errors: str


def run(command: Sequence[str], folder: Path, variables: Mapping[str, str] | None = None) -> Ran:
    """Run a command in `folder`, which holds nothing of the user's, to its end. RunFailed where it does not end with 0.

    Modules of this project are found by it; `variables` are added to its environment.
    """
    peak = folder / "peak.json"
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "peak.py"), str(peak), *command],
        cwd=folder,
        env=environment(os.environ) | {"PYTHONPATH": str(ROOT)} | dict(variables or {}),
        capture_output=True,
        text=True,
        errors="replace",
    )
    wall = time.perf_counter() - began
    if done.returncode:
        raise RunFailed(f"{name(command)} ended with {done.returncode}: {last_word(done.stderr)}")
    return Ran(wall, int(json.loads(peak.read_text())["peak_bytes"]), done.stdout, done.stderr)


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """The caller's, without what would change how a side works."""
    return {
        key: value
        for key, value in given.items()
        if key not in THREADS and (key == CACHE or not key.startswith("MLXBATCH_"))
    }


def name(command: Sequence[str]) -> str:
    """A command as one reads it: what is run, without the interpreter, folders and options."""
    words = takewhile(lambda word: not word.startswith("-"), (word for word in command[1:] if word != "-m"))
    return " ".join(Path(word).name for word in words) or Path(command[0]).name


def last_word(errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    # typer draws a box around its errors.
    words = [line.strip("│ ") for line in lines if not set(line) <= set("╭╮╰╯─│ ")]
    return words[-1] if words else "no message"
