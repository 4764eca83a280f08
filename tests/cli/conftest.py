"""A command line to call, a place to call it in, and recordings to call it on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from mlxbatch.cli import request, run

ROOT = Path(__file__).resolve().parents[2]
RATE = 16_000


@dataclass
class Ran:
    code: int
    out: str
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def summary(self) -> dict[str, Any]:
        assert self.records[-1]["event"] == "summary"
        return self.records[-1]

    @property
    def error(self) -> str:
        """The one line on standard error that says what went wrong; there is no traceback."""
        assert "Traceback" not in self.err, self.err
        lines = [line for line in self.err.splitlines() if "mlxbatch: error:" in line]
        assert len(lines) == 1, self.err
        return lines[0]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of its own, without settings of the user's."""
    for name in os.environ:
        if name.startswith("MLXBATCH_") and name != "MLXBATCH_CACHE":
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


Cli = Callable[..., Ran]


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Cli:
    """The command line in this process: arguments -> code, standard output, standard error."""

    def call(*arguments: str | Path) -> Ran:
        code = run([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return Ran(code, captured.out, captured.err)

    return call


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The fake engine in place of a model; what is put into the dictionary is its settings."""
    extra: dict[str, Any] = {}
    chosen = lambda name, **_: request.Chosen("fake", name, "0" * 64, None, extra)  # noqa: E731
    monkeypatch.setattr(request, "choose", chosen)
    return extra


def noise(seconds: float, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(round(seconds * RATE)) * 0.1).astype(np.float32)


def write(path: Path, samples: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, RATE, subtype="FLOAT")
    return path


@pytest.fixture
def recordings(place: Path) -> Path:
    """in/a.wav (1 s), in/b.wav (2 s), in/sub/c.wav (3 s)"""
    for number, name in enumerate(("a", "b", "sub/c"), 1):
        write(place / "in" / f"{name}.wav", noise(number, number))
    return place / "in"


def program(*arguments: str | Path, fake: dict[str, Any] | None = None, **environment: str) -> subprocess.Popen[str]:
    """The program as a process: over the fake engine where its settings are given, else as it is."""
    module = "mlxbatch" if fake is None else "tests.cli.fake_run"
    python_path = {"PYTHONPATH": str(ROOT), "FAKE_ENGINE": json.dumps(fake or {})}
    return subprocess.Popen(
        [sys.executable, "-m", module, *map(str, arguments)],
        env=os.environ | python_path | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], timeout: float = 60) -> Ran:
    out, err = process.communicate(timeout=timeout)
    return Ran(process.returncode, out, err)
