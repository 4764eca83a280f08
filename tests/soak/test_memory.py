"""The long version: 2,000 short files, and memory stays where it is, in the parent and in the engine's process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil
import pytest
import soundfile
from safetensors.numpy import save_file

from tests.models.tiny import TOKEN_IDS, tiny_tensors, write_tiny_whisper

ROOT = Path(__file__).resolve().parents[2]
FILES = 2_000
RATE = 16_000
# Seconds between two looks at the processes, from outside.
EVERY = 0.25
# The share of the looks at the beginning that is warm-up: caches fill, and the allocators find their size. The parent
# takes 500 files for that: SQLite's page cache and CPython's table of interned names grow by a step or two until then.
WARM_UP = 0.25
# MLX keeps freed buffers by size, and each new shape adds some until the limit is reached: with the default of 1 GB a
# tiny network would still be filling it at the end. This one is full from the beginning; what grows is something else.
CACHE = '[device]\ncache_limit = "64MB"\n'
FLAT = 0.03


def brief_whisper(directory: Path) -> Path:
    """Tiny random weights that mean it: sharp logits, and the end of the text likely, so that texts are short.

    As they are, no text would pass for certain, and each window would be decoded at every temperature to the end.
    """
    write_tiny_whisper(directory)
    tensors = tiny_tensors()
    end = tensors["decoder.token_embedding.weight"][TOKEN_IDS["<|endoftext|>"]]
    tensors["decoder.ln.bias"] = 8 * end
    tensors["decoder.ln.weight"] *= 4
    save_file(tensors, directory / "model.safetensors", metadata={"format": "mlx"})
    return directory


def write_recordings(folder: Path, count: int) -> None:
    """Noise of 2.1 to 4 s: all of one shape, for the engine encodes them at one length (see CACHE)."""
    dice = np.random.default_rng(1)
    for number in range(count):
        path = folder / f"{number // 100:02}" / f"{number:04}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        samples = dice.standard_normal(int(dice.uniform(2.1, 4) * RATE)) * 0.1
        soundfile.write(path, samples.astype(np.float32), RATE)


@dataclass
class Watched:
    """Resident bytes of a run's processes while files come out of it, and how many had come out."""

    parent: list[int] = field(default_factory=list)
    child: list[int] = field(default_factory=list)
    done: int = 0

    def watch(self, process: psutil.Process, ended: threading.Event) -> None:
        while not ended.wait(EVERY):
            if self.done:
                self.parent.append(process.memory_info().rss)
                self.child.append(sum(child.memory_info().rss for child in process.children()))


def run(folder: Path) -> tuple[dict[str, Any], Watched]:
    """The program over in/: its summary, and what its memory was."""
    command = [sys.executable, "-m", "mlxbatch", "transcribe", "in", "-o", "out", "--model", "model"]
    command += ["--language", "en", "--format", "txt,srt,json", "--json", "--quiet"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(folder / "config")}
    watched, ended = Watched(), threading.Event()
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        looking = threading.Thread(target=watched.watch, args=(psutil.Process(process.pid), ended))
        looking.start()
        assert process.stdout is not None
        record: dict[str, Any] = {}
        for line in process.stdout:
            record = json.loads(line)
            watched.done += record.get("status") == "done"
            if watched.done == FILES:
                ended.set()
        looking.join()
    assert process.returncode == 0
    return record, watched


def change(sizes: list[int]) -> tuple[float, float]:
    """Median of the first quarter after the warm-up, and of the last."""
    sizes = sizes[int(len(sizes) * WARM_UP) :]
    quarter = len(sizes) // 4
    return median(sizes[:quarter]), median(sizes[-quarter:])


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_memory_is_flat_over_two_thousand_short_files(tmp_path: Path) -> None:
    brief_whisper(tmp_path / "model")
    write_recordings(tmp_path / "in", FILES)
    (tmp_path / "mlxbatch.toml").write_text(CACHE, "utf-8")
    began = time.monotonic()
    summary, watched = run(tmp_path)
    print(f"\n{FILES} files, {summary['audio_seconds']:.0f} s of audio in {time.monotonic() - began:.0f} s")
    assert (summary["done"], summary["failed"]) == (FILES, 0)
    assert len(watched.child) > 100
    changes = {}
    for name, sizes in {"parent": watched.parent, "child": watched.child}.items():
        first, last = change(sizes)
        changes[name] = last / first - 1
        print(f"  {name:6} RSS {first / 1e6:.1f} MB at first, {last / 1e6:.1f} MB at last: {changes[name]:+.2%}")
    assert {name: rise for name, rise in changes.items() if abs(rise) > FLAT} == {}
