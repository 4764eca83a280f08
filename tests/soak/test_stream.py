"""A stream of an hour takes no more memory than one of five minutes, in the parent and in the engine's process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import numpy as np
import psutil
import pytest
import soundfile

from tests.soak.test_memory import CACHE, ROOT, brief_whisper

SHORT, LONG = 300.0, 3600.0
EVERY = 0.1
MORE = 0.10


def write_recording(path: Path, seconds: float) -> Path:
    """The examples' speech over and over, with pauses between, written as it goes."""
    clips = [soundfile.read(clip, dtype="int16") for clip in sorted((ROOT / "examples").rglob("*.wav"))]
    left, following = round(seconds * 8000), cycle(clips)
    with soundfile.SoundFile(path, "w", 8000, 1, "PCM_16") as file:
        while left:
            samples, rate = next(following)
            part = np.concatenate([samples[:: rate // 8000], np.zeros(12_000, np.int16)])[:left]
            file.write(part)
            left -= len(part)
    return path


@dataclass
class Seen:
    """Resident bytes at most, seconds until the first line, and how far the lines came."""

    peaks: dict[str, int] = field(default_factory=lambda: {"parent": 0, "child": 0})
    first: float = 0.0
    end: float = 0.0

    def watch(self, process: psutil.Process, ended: threading.Event) -> None:
        while not ended.wait(EVERY):
            now = {"parent": process.memory_info().rss}
            now["child"] = max((child.memory_info().rss for child in process.children()), default=0)
            self.peaks = {name: max(peak, now[name]) for name, peak in self.peaks.items()}


def run(folder: Path, recording: Path) -> Seen:
    command = [sys.executable, "-m", "mlxbatch", "transcribe", recording.name, "--stream", "--json", "--quiet"]
    command += ["--model", "model"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(folder / "config")}
    seen, ended, began = Seen(), threading.Event(), time.monotonic()
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        looking = threading.Thread(target=seen.watch, args=(psutil.Process(process.pid), ended))
        looking.start()
        assert process.stdout is not None
        for line in process.stdout:
            seen.first = seen.first or time.monotonic() - began
            start = json.loads(line)["start"]
            assert start >= seen.end, "lines come in the order of time"
            seen.end = start
        ended.set()
        looking.join()
    assert process.returncode == 0
    return seen


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_an_hour_takes_no_more_memory_than_five_minutes(tmp_path: Path, silero_vad: Path) -> None:
    brief_whisper(tmp_path / "model")
    (tmp_path / "mlxbatch.toml").write_text(CACHE, "utf-8")
    seen = {}
    for name, seconds in {"short": SHORT, "long": LONG}.items():
        began = time.monotonic()
        seen[name] = run(tmp_path, write_recording(tmp_path / f"{name}.wav", seconds))
        peaks = ", ".join(f"{who} {peak / 1e6:.1f} MB" for who, peak in seen[name].peaks.items())
        print(
            f"\n{seconds:.0f} s of audio in {time.monotonic() - began:.0f} s: first line after {seen[name].first:.1f} s"
        )
        print(f"  peak RSS: {peaks}")
        assert seen[name].end > seconds - 60, "it was not heard to its end"
    for who, peak in seen["short"].peaks.items():
        assert seen["long"].peaks[who] <= (1 + MORE) * peak, who
