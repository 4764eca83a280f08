"""The README's commands are run as they stand, on real weights and real recordings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
# The shortest of each kind: what is proven is that the commands work, the engine has tests of its own.
CLIPS = {"talks": "books/sense_and_sensibility_01_austen_64kb-0880.wav", "calls": "calls/tt-allbusy.wav"}


def commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    lines = [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if "mlxbatch " in line and not line.startswith("pip")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, whisper_base: Path) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    for name, clip in CLIPS.items():
        (folder / name / "monday").mkdir(parents=True)
        shutil.copy(ROOT / "examples" / clip, folder / name / "monday")
    return folder


def test_there_are_commands() -> None:
    assert len(commands()) >= 6


@pytest.mark.real
@pytest.mark.parametrize("command", commands())
def test_command_runs_as_written(command: str, folder: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command], cwd=folder, env=os.environ | {"PATH": path}, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    if (made := re.search(r"-o (\S+?)/? ", f"{command} ")) and "--dry-run" not in command:
        assert any((folder / made[1]).rglob("quality.json" if "convert" in command else "*.txt"))


def test_every_option_named_exists() -> None:
    helps = subprocess.run(
        [sys.executable, "-m", "mlxbatch", "transcribe", "--help"], capture_output=True, text=True, check=True
    ).stdout
    transcribe = " ".join(line for line in README.splitlines() if "mlxbatch transcribe" in line)
    for option in set(re.findall(r"--[a-z][a-z-]+", transcribe)):
        assert option in helps
