"""The governor on real weights: every step taken, and every transcript what it is without."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from mlxbatch import runner
from mlxbatch.engines.base import EngineSpec
from mlxbatch.governor import Policy
from mlxbatch.host import make_host
from mlxbatch.ledger import Ledger
from mlxbatch.machine import read_machine
from mlxbatch.overseer import Oversight
from mlxbatch.runner import ModelKey, RunSettings, Watcher, transcribe
from mlxbatch.types import Done, Item, Planned, Result, TranscribeOptions

pytestmark = pytest.mark.real
CALLS = Path(__file__).resolve().parents[1] / "examples" / "calls"
NAMES = ("demo-thanks", "dir-instr", "ss-noservice", "tt-allbusy", "vm-record-prepend")
ITEMS = [Item(name, CALLS / f"{name}.wav", Path(name)) for name in NAMES]


class Listener(Watcher):
    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.then: Callable[[], None] = lambda: None

    def planned(self, planned: Sequence[Planned]) -> None:
        self.then()

    def event(self, kind: str, facts: Mapping[str, Any]) -> None:
        self.events.append((kind, dict(facts)))

    def steps(self) -> list[str]:
        return [facts["step"] for kind, facts in self.events if kind == "governor"]


def run(
    model: Path,
    out: Path,
    limit: str = "8GB",
    policy: Policy | None = None,
    on_child: Callable[[int], Any] | None = None,
) -> tuple[dict[str, str], Listener]:
    """Texts by recording, and what was told. `on_child` gets the engine's process id once a first group is planned."""
    spec = EngineSpec("whisper", model, encode_streams=2, blas_threads=1, device={"kind": "cpu", "memory_limit": limit})
    settings = RunSettings(
        out,
        ("txt",),
        (ModelKey("base", "key"),),
        "txt",
        options=TranscribeOptions(language="en", temperatures=(0.0,)),
        oversight=Oversight(policy or Policy()),
    )
    listener = Listener()
    if on_child is not None:
        listener.then = lambda: on_child(multiprocessing.active_children()[0].pid)
    with Ledger.open(out) as ledger:
        results: list[Result] = list(transcribe(ITEMS, [make_host(spec, "child")], ledger, settings, listener))
    assert sorted(result.item.id for result in results if isinstance(result, Done)) == sorted(NAMES)
    return {name: (out / f"{name}.txt").read_text("utf-8") for name in NAMES}, listener


@pytest.fixture(scope="module")
def unbounded(whisper_base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    texts, listener = run(whisper_base, tmp_path_factory.mktemp("unbounded"))
    assert listener.steps() == [], "with 8 GB there is nothing to govern"
    assert all(len(text.split()) > 2 for text in texts.values())
    return texts


def test_a_limit_that_its_weights_nearly_fill(whisper_base: Path, unbounded: dict[str, str], tmp_path: Path) -> None:
    """291 MB of weights below 385 MB: every step is taken, one row at a time, and all is done as without."""
    texts, listener = run(whisper_base, tmp_path, "385MB", Policy(latency_limit=0.01))
    assert texts == unbounded
    steps = listener.steps()
    assert {"hold", "slow", "shrink", "reclaim"} <= set(steps)
    shares = {facts["step"]: facts["share"] for kind, facts in listener.events if kind == "governor"}
    assert all(share > 0.75 for share in shares.values())
    rows = [facts["rows"] for kind, facts in listener.events if kind == "governor"]
    assert set(rows) == {1}


def test_rows_are_sent_back_when_the_machine_runs_short(
    whisper_base: Path, unbounded: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program takes nearly all memory for three seconds while five rows are live."""
    began: list[float] = []

    def squeezed() -> Any:
        found = read_machine()
        began[:] = began or [time.monotonic()]
        short = 3 < time.monotonic() - began[0] < 6
        return replace(found, available=found.total // 20) if short else found

    monkeypatch.setattr(runner, "read_machine", squeezed)
    texts, listener = run(whisper_base, tmp_path)
    assert texts == unbounded
    changes = [facts for kind, facts in listener.events if kind == "governor"]
    assert changes[0]["step"] == "reclaim"
    assert changes[0]["live"] > 1
    assert changes[0]["rows"] == changes[0]["live"] // 2
    assert changes[-1]["step"] == "open", "and back once there is memory again"


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit(2) is Linux's")
def test_a_native_crash_costs_the_process_and_nothing_else(
    whisper_base: Path, unbounded: dict[str, str], tmp_path: Path
) -> None:
    """Its address space is bounded in mid-work: MLX's CPU build then ends by a signal, not by an error."""

    def bound(pid: int) -> None:
        process = psutil.Process(pid)
        size = process.memory_info().vms + 8 * 2**20
        process.rlimit(psutil.RLIMIT_AS, (size, size))

    texts, listener = run(whisper_base, tmp_path, on_child=bound)
    assert texts == unbounded
    assert [facts["what"] for kind, facts in listener.events if kind == "child"] == ["died"]


def test_killed_in_the_middle_of_its_work(whisper_base: Path, unbounded: dict[str, str], tmp_path: Path) -> None:
    texts, listener = run(whisper_base, tmp_path, on_child=lambda pid: threading.Timer(2, os.kill, (pid, 9)).start())
    assert texts == unbounded
    assert [facts["what"] for kind, facts in listener.events if kind == "child"] == ["died"]
