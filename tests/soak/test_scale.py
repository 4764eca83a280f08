"""100,000 paths found and planned, and a second run over 10,000 files that are done: time and memory.

Bounds are on processor time, which other programs on the machine stretch less than the clock.
"""

from __future__ import annotations

import csv
import json
import os
import resource
import shlex
import subprocess
import sys
import wave
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT

FOUND, FRESH = 100_000, 10_000
SECONDS, MEMORY = 20.0, 500e6
SECONDS_AGAIN = 3.0
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "FAKE_ENGINE": "{}"}


def names(number: int) -> Iterator[str]:
    """As a call centre has them: a folder a day, ten teams in each."""
    for n in range(number):
        yield f"2026-{n // 1000:03}/team {n % 10}/call {n:06}-agent {n % 37}.wav"


def fill(folder: Path, number: int, content: bytes) -> None:
    for name in names(number):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100,000 files in calls/, a list and a manifest of them."""
    root = tmp_path_factory.mktemp("scale")
    fill(root / "calls", FOUND, b"x")
    (root / "list").write_bytes(b"".join(b"calls/%b\0" % name.encode() for name in names(FOUND)))
    with (root / "calls" / "calls.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "language", "channels", "speakers", "prompt"])
        rows.writerows([name, "German", "split", "agent;customer", "Hello"] for name in names(FOUND))
    return root


WAYS = {
    "a directory": ["calls"],
    "a pattern and filters": ["calls/**/*.wav", "--exclude", "*-hold.wav", "--newer-than", "7d", "--min-age", "0.001s"],
    "a list": ["--files-from", "list", "-0", "--root", "calls"],
    "a manifest": ["--manifest", "calls/calls.csv"],
}


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", WAYS)
def test_100_000_paths_are_found_and_planned(calls: Path, way: str) -> None:
    arguments = ["transcribe", *WAYS[way], "-o", f"out {way}", "--workers", "0", "-q"]
    # Its parent is a small shell: Linux counts the parent's memory into a child's peak.
    command = shlex.join([sys.executable, "-m", "tests.soak.scale_run", *arguments])
    ran = subprocess.run(
        ["sh", "-c", f"{command}; exit $?"], cwd=calls, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    print(f"{way}: {found['cpu_s']:.1f} s of CPU, {found['wall_s']:.1f} s, peak {found['peak_bytes'] / 1e6:.0f} MB")
    assert found["planned"] == FOUND
    assert found["cpu_s"] < SECONDS
    assert found["peak_bytes"] < MEMORY


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_second_run_over_10_000_files_that_are_done(tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "one.wav"), "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(b"\1\0" * 400)
    fill(tmp_path / "calls", FRESH, (tmp_path / "one.wav").read_bytes())
    first, _ = run(tmp_path)
    assert (first["done"], first["skipped"]) == (FRESH, 0)
    again, cpu = run(tmp_path)
    print(f"again: {cpu:.1f} s of CPU, the run itself {again['wall_seconds']:.1f} s")
    assert (again["done"], again["skipped"]) == (0, FRESH)
    assert cpu < SECONDS_AGAIN


def run(folder: Path) -> tuple[dict[str, float], float]:
    """The run's summary, and the processor time of its process from start to end."""
    command = [sys.executable, "-m", "tests.cli.fake_run", "transcribe", "calls", "-o", "out", "--json", "-q"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    summary: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return summary, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
