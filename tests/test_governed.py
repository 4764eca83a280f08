"""The governor on real weights: every step taken, and every transcript what it is without."""

from __future__ import annotations

import multiprocessing
import os
import signal
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
from mlxbatch.governor import FEWEST, Policy
from mlxbatch.host import make_host
from mlxbatch.ledger import Ledger
from mlxbatch.machine import read_machine
from mlxbatch.overseer import Oversight
from mlxbatch.runner import ModelKey, RunSettings, Watcher, transcribe
from mlxbatch.types import Done, Item, Planned, Readings, Result, TranscribeOptions

pytestmark = pytest.mark.real
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SHORTEST = sorted(EXAMPLES.rglob("*.wav"), key=lambda path: path.stat().st_size)
# One window each, and two more than latencies are judged by, so that it is seen what they lead to.
ITEMS = [Item(path.stem, path, Path(path.stem)) for path in SHORTEST[: FEWEST + 2]]
FEW = ITEMS[:4]  # where what is shown takes one moment


class Listener(Watcher):
    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.then: Callable[[], None] = lambda: None
        self.live = 0

    def planned(self, planned: Sequence[Planned]) -> None:
        self.then()

    def readings(self, readings: Readings) -> None:
        self.live = readings.live

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
    listener: Listener | None = None,
    items: Sequence[Item] = ITEMS,
    stall_timeout: float = 60.0,
) -> tuple[dict[str, str], Listener]:
    """Texts by recording, and what was told. `on_child` gets the engine's process id once a first group is planned."""
    spec = EngineSpec("whisper", model, encode_streams=2, blas_threads=1, device={"kind": "cpu", "memory_limit": limit})
    settings = RunSettings(
        out,
        ("txt",),
        (ModelKey("base", lambda options: "key"),),
        "txt",
        # Every window is doubtful, and so encoded a second time at the full 30 s, which takes the most.
        options=TranscribeOptions(language="en", temperatures=(0.0,), logprob_threshold=0.0),
        oversight=Oversight(policy or Policy()),
    )
    listener = listener or Listener()
    if on_child is not None:
        listener.then = lambda: on_child(multiprocessing.active_children()[0].pid)
    with Ledger.open(out) as ledger:
        results: list[Result] = list(
            transcribe(items, [make_host(spec, "child", stall_timeout=stall_timeout)], ledger, settings, listener)
        )
    assert sorted(result.item.id for result in results if isinstance(result, Done)) == sorted(item.id for item in items)
    return {item.id: (out / f"{item.id}.txt").read_text("utf-8") for item in items}, listener


@pytest.fixture(scope="module")
def unbounded(whisper_base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    texts, listener = run(whisper_base, tmp_path_factory.mktemp("unbounded"))
    assert listener.steps() == [], "with 8 GB there is nothing to govern"
    assert all(len(text.split()) > 2 for text in texts.values())
    return texts


@pytest.mark.parametrize(
    ("limit", "items", "taken"),
    [("508MB", ITEMS, {"hold", "slow"}), ("440MB", FEW, {"reclaim"})],
    ids=["lower", "upper"],
)
def test_a_limit_that_its_weights_nearly_fill(
    whisper_base: Path, unbounded: dict[str, str], tmp_path: Path, limit: str, items: list[Item], taken: set[str]
) -> None:
    """291 MB of weights, 444 MB with a row of 30 s: the steps are taken, one row at a time, and all is done as without.

    Which readings fall into which moment differs from run to run, so the log is asked for the steps, not for their
    number; from hold to reclaim a step may fall between two readings.
    """
    texts, listener = run(whisper_base, tmp_path, limit, Policy(latency_limit=0.01), items=items)
    assert texts.items() <= unbounded.items()
    steps = listener.steps()
    assert taken <= set(steps), steps
    order = ["open", "hold", "slow", "shrink", "reclaim"]
    assert max(map(order.index, steps)) == max(map(order.index, taken))
    shares = {facts["step"]: facts["share"] for kind, facts in listener.events if kind == "governor"}
    assert all(share > 0.75 for step, share in shares.items() if step != "open")
    rows = [facts["rows"] for kind, facts in listener.events if kind == "governor"]
    assert set(rows) == {1}


def test_rows_are_sent_back_when_the_machine_runs_short(
    whisper_base: Path, unbounded: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program takes nearly all memory for three seconds, from when several rows are live."""
    began: list[float] = []
    listener = Listener()

    def squeezed() -> Any:
        found = read_machine()
        if not began and listener.live > 2:
            began.append(time.monotonic())
        short = began and time.monotonic() - began[0] < 3
        return replace(found, available=0) if short else found

    monkeypatch.setattr(runner, "read_machine", squeezed)
    texts, _ = run(whisper_base, tmp_path, listener=listener, items=FEW)
    assert texts.items() <= unbounded.items()
    changes = [facts for kind, facts in listener.events if kind == "governor"]
    assert changes[0]["step"] == "reclaim"
    assert changes[0]["live"] > 1
    assert changes[0]["rows"] == changes[0]["live"] // 2
    assert changes[-1]["step"] == "open", "and back once there is memory again"


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit(2) is Linux's")
def test_a_native_crash_costs_the_process_and_nothing_else(
    whisper_base: Path, unbounded: dict[str, str], tmp_path: Path
) -> None:
    """Its address space is bounded in mid-work: native code then ends it by a signal, or hangs, as OpenBLAS does."""

    def bound(pid: int) -> None:
        process = psutil.Process(pid)
        size = process.memory_info().vms + 8 * 2**20
        process.rlimit(psutil.RLIMIT_AS, (size, size))

    texts, listener = run(whisper_base, tmp_path, on_child=bound, items=FEW, stall_timeout=10.0)
    assert texts.items() <= unbounded.items()
    (what,) = [facts["what"] for kind, facts in listener.events if kind == "child"]
    assert what in ("died", "stalled")


def test_killed_in_the_middle_of_its_work(whisper_base: Path, unbounded: dict[str, str], tmp_path: Path) -> None:

    def kill_soon(pid: int) -> None:
        threading.Timer(1, os.kill, (pid, signal.SIGKILL)).start()

    texts, listener = run(whisper_base, tmp_path, on_child=kill_soon, items=FEW)
    assert texts.items() <= unbounded.items()
    assert [facts["what"] for kind, facts in listener.events if kind == "child"] == ["died"]
