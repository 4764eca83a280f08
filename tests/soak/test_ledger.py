"""A ledger of a million items: what a run and a report ask of it before anything else is done."""

from __future__ import annotations

import json
import random
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlxbatch import ledger_rows
from mlxbatch.ledger import Fingerprint, Ledger, content_hash, fingerprint
from mlxbatch.stored import pack, pack_outputs
from mlxbatch.types import Segment, Transcript

ITEMS = 1_000_000
EVERY = 100  # of so many items one has its files on disk: 10,000 in all
SECONDS, MEMORY = 5.0, 300e6
DICE = random.Random(4)

ASK = """
import time
began = time.perf_counter()
import json, resource, sys
from pathlib import Path
from mlxbatch.history import History
from mlxbatch.ledger import Fresh, Ledger
from mlxbatch.types import Item

root, step = Path(sys.argv[1]), int(sys.argv[2])
with History.open(root / "out") as history:
    status = history.status()
counted = time.perf_counter()
names = [(f"{number:032x}", f"{number:06}") for number in range(0, 1_000_000, step)]
fresh = 0
with Ledger.open(root / "out") as ledger:
    opened = time.perf_counter()
    for key, name in names:
        item = Item(key, root / "in" / f"{name}.wav", Path(name))
        outputs = [root / "out" / f"{name}.{suffix}" for suffix in ("json", "txt")]
        fresh += isinstance(ledger.decide(item, ["i" * 32], "json txt", outputs), Fresh)
ended = time.perf_counter()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(json.dumps({"status": status, "fresh": fresh, "status_s": counted - began, "open_s": opened - counted,
                  "decide_s": ended - opened, "seconds": ended - began, "peak_bytes": peak}))
"""
DIE = """
import os, signal, sys
from pathlib import Path
from mlxbatch.ledger import Ledger
from mlxbatch.types import Item
ledger = Ledger.open(Path(sys.argv[1]) / "out")
with ledger.at_risk([Item("x", Path("x.wav"), Path("x"))]):
    ledger.failed(Item("y", Path("y.wav"), Path("y")), "decode", "x")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def ask(root: Path) -> dict[str, Any]:
    """In a fresh process. Its parent is a small shell: Linux counts the parent's memory into a child's peak."""
    command = shlex.join([sys.executable, "-c", ASK, str(root), str(EVERY)])
    ran = subprocess.run(["sh", "-c", f"{command}; exit $?"], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def results() -> list[bytes]:
    """Packed transcripts of about 1 KB."""
    word = lambda: "".join(DICE.choices("etaoinshrdlu", k=DICE.randint(2, 9)))  # noqa: E731
    texts = [" ".join(word() for _ in range(35)) for _ in range(200)]
    segments = [Segment(0.0, 12.34, text, avg_logprob=-0.2345 - n / 7) for n, text in enumerate(texts)]
    packed = [pack(Transcript(tuple(segments[n : n + 6]), "en", 74.04)) for n in range(190)]
    assert 800 < sum(map(len, packed)) / len(packed) < 1300
    return packed


def rows(root: Path) -> Iterator[tuple[ledger_rows.Key, dict[str, Any]]]:
    for number in range(ITEMS):
        name = f"{number:06}"
        mark, digest = Fingerprint(160_044 + number, 1_700_000_000_000_000_000 + number, number), f"{number:064x}"
        if number % EVERY == 0:
            source = root / "in" / f"{name}.wav"
            source.write_bytes(name.encode())
            mark, digest = fingerprint(source), content_hash(source)
            for suffix in ("json", "txt"):
                (root / "out" / f"{name}.{suffix}").write_text("hello")
        well = number % EVERY != 50
        yield (
            ("transcribe", f"{number:032x}"),
            {
                "source": f"/data/calls/2024/{number % 365:03}/{name}.wav".encode(),
                **ledger_rows.content_columns(mark, digest),
                "inference_key": "i" * 32,
                "rendering_key": "json txt",
                "model": "whisper-base",
                "outputs": pack_outputs({f"{name}.json".encode(): 5, f"{name}.txt".encode(): 5}),
                "seconds": 74.04,
                "done_at": "2024-05-06T07:08:09+00:00",
                "status": "done" if well else "failed",
                "attempts": 0 if well else 2,
                "stage": None if well else "decode",
                "error": None if well else "no sound in it",
                "run_id": "20240506-070809-abcd",
                "finished_at": "2024-05-06T07:08:09+00:00",
            },
        )


def build(root: Path) -> None:
    (root / "in").mkdir()
    (root / "out").mkdir()
    packed = results()
    with Ledger.open(root / "out") as ledger, ledger._transaction() as database:
        for number, (key, columns) in enumerate(rows(root)):
            ledger_rows.put(database, key, columns)
            ledger_rows.put_result(database, key, packed[number % len(packed)])


def check(name: str, found: dict[str, Any], failed: int) -> None:
    size = found.pop("peak_bytes")
    print(f"{name}: {found['seconds']:.2f} s, peak RSS {size / 1e6:.0f} MB, {json.dumps(found)}")
    assert found["status"] == {"done": ITEMS - ITEMS // EVERY, "failed": failed, "quarantined": 0}
    assert found["fresh"] == ITEMS // EVERY
    assert found["seconds"] < SECONDS
    assert size < MEMORY


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_million_items(tmp_path: Path) -> None:
    build(tmp_path)
    file = tmp_path / "out" / ".mlxbatch" / "ledger.sqlite3"
    print(f"{ITEMS:,} items, {file.stat().st_size / 1e6:.0f} MB")
    check("status and resume", ask(tmp_path), ITEMS // EVERY)
    died = subprocess.run([sys.executable, "-c", DIE, str(tmp_path)], check=False)
    assert died.returncode == -signal.SIGKILL
    check("after a kill, read through", ask(tmp_path), ITEMS // EVERY + 1)
    check("and once more", ask(tmp_path), ITEMS // EVERY + 1)
    file.unlink()  # pytest would keep it, and two more
