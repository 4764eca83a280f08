"""Overlap is real: while one batch is inferred, the next one is prepared. Both are sleeps, so only the order counts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from mlxbatch import reading, runner
from mlxbatch.engines.base import EngineSpec
from mlxbatch.host import Kind, make_host
from mlxbatch.ledger import Ledger
from mlxbatch.runner import ModelKey, RunSettings, Watcher, transcribe
from mlxbatch.types import Done, Item, Recording

RATE = 16_000
BATCHES = 8


class Stages(Watcher):
    """When what was at work."""

    def __init__(self) -> None:
        self.decoding: list[tuple[float, float]] = []
        self.inferring: list[tuple[float, float]] = []

    def readings(self, readings: runner.Readings) -> None:
        self.inferring += [(span.begin, span.end) for span in readings.spans]

    def longer(self) -> float:
        """Seconds of the stage that took longer, by itself."""
        return max(sum(end - begin for begin, end in stage) for stage in (self.decoding, self.inferring))


def measure(folder: Path, kind: Kind, workers: int, seconds: float, patch: pytest.MonkeyPatch) -> float:
    """Wall time over the longer stage alone, from the first decode's begin to the last output.

    A batch is one file; `seconds` is what it takes to prepare, and again to infer.
    """
    stages = Stages()

    def slow(item: Item, *asked: Any) -> Recording:
        begin = time.monotonic()
        time.sleep(seconds)
        stages.decoding.append((begin, time.monotonic()))
        return Recording(np.zeros((1, RATE), np.float32), RATE)

    patch.setattr(reading, "decode", slow)
    items = [Item(str(n), folder / f"{n}.wav", Path(str(n))) for n in range(BATCHES)]
    for item in items:
        soundfile.write(item.source, np.zeros(RATE, np.float32), RATE)
    host = make_host(EngineSpec("fake", batch_size=1, extra={"seconds_per_batch": seconds}), kind)
    settings = RunSettings(
        folder / "out", ("txt",), (ModelKey("m", lambda options: "key"),), "txt", batch_size=1, workers=workers
    )
    with Ledger.open(settings.output) as ledger:
        results = list(transcribe(items, [host], ledger, settings, stages))
        ended = time.monotonic()
    assert [type(result) for result in results] == [Done] * BATCHES
    assert len(stages.inferring) == BATCHES
    wall = ended - stages.decoding[0][0]
    print(
        f"\n{kind}, workers={workers}: {wall:.2f} s, the longer stage alone {stages.longer():.2f} s, "
        f"ratio {wall / stages.longer():.3f}"
    )
    return wall / stages.longer()


def test_preparation_and_inference_run_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At best (8 + 1) / 8: the first batch has nothing to hide behind. 0.8 s, so that 2 % of it all is much noise."""
    assert measure(tmp_path, "child", 1, 0.8, monkeypatch) <= 1.15


def test_serially_they_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert measure(tmp_path, "thread", 0, 0.3, monkeypatch) >= 1.8
