"""Kill the program at random moments, again and again, and look at what is there: for the short proof and the long one.

`kill -9` of a real `mlxbatch transcribe` over the fake engine; the outputs have to be, byte by byte, those of a run
that nobody killed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import psutil
import soundfile

from mlxbatch.stored import unpack_outputs

ROOT = Path(__file__).resolve().parents[1]
RATE = 16_000
FAKE = {"seconds_per_batch": 0.03}


@dataclass
class Victim:
    """Recordings below in/, a run that nobody killed in ref/, and the one that is killed in out/."""

    folder: Path
    count: int
    reference: dict[str, bytes] = field(default_factory=dict)
    program: ClassVar[tuple[str, ...]] = ("tests.cli.fake_run", "--format", "txt,json", "--batch-size", "2")
    # Seconds from a run's begin, and after a file is done, in which it is killed.
    begin: ClassVar[float] = 1.5
    moment: ClassVar[float] = 0.06

    def __post_init__(self) -> None:
        self.record()
        self.run("ref")
        self.reference = outputs(self.folder / "ref")
        assert len(self.reference) == 2 * self.count

    def record(self) -> None:
        """Write the recordings."""
        for number in range(self.count):
            path = self.folder / "in" / f"d{number % 3}" / f"{number:03}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, np.full(RATE // 4 + 40 * number, 0.1, np.float32), RATE)

    def start(self, output: str = "out") -> subprocess.Popen[str]:
        module, *options = self.program
        return subprocess.Popen(
            [sys.executable, "-m", module, "transcribe", "in", "-o", output, *options, "--json", "--quiet"],
            cwd=self.folder,
            env=os.environ
            | {"PYTHONPATH": str(ROOT), "FAKE_ENGINE": json.dumps(FAKE), "XDG_CONFIG_HOME": str(self.folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, output: str = "out") -> list[dict[str, object]]:
        """A run to its end: its results."""
        out, err = self.start(output).communicate(timeout=300)
        records = [json.loads(line) for line in out.splitlines()]
        assert err == ""
        assert records[-1]["event"] == "summary"
        return records[:-1]

    def kill(self, dice: random.Random) -> None:
        """Kill a run, at any moment or in the middle of its work."""
        process = self.start()
        working = dice.random() < 0.6
        if working:
            working = _read_until_done(process, dice.randint(1, 8))
            time.sleep(dice.uniform(0.0, self.moment))
        else:
            time.sleep(dice.uniform(0.0, self.begin))
        family = _family(process.pid)
        process.kill()
        _, err = process.communicate(timeout=10)
        # Killed while its engine loads, Python's machinery says a word: of a pickle cut off, of shared memory removed.
        assert not working or err == "", err
        _, alive = psutil.wait_procs(family, timeout=5)
        assert not alive, "a child lives on"

    def check(self) -> int:
        """What a kill may leave: whole outputs, and rows whose outputs are there. The rows are counted."""
        found = outputs(self.folder / "out")
        assert {name: content for name, content in found.items() if self.reference.get(name) != content} == {}
        with _ledger(self.folder / "out" / ".mlxbatch") as ledger, suppress(sqlite3.OperationalError):
            assert ledger.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            # No such table: killed before it was made.
            rows = ledger.execute("SELECT status, outputs FROM items").fetchall()
            named = [os.fsdecode(path) for _, packed in rows for path in unpack_outputs(packed)]
            assert {status for status, _ in rows} <= {"done"}
            assert len(named) == 2 * len(rows)
            assert set(named) <= set(found)
            return len(rows)
        return 0

    def finish(self) -> None:
        """The last run: everything is there once, and nothing else."""
        results = self.run()
        assert len(results) == self.count
        assert {result["status"] for result in results} <= {"done", "skipped"}
        assert outputs(self.folder / "out") == self.reference
        assert self.check() == self.count
        assert list((self.folder / "out" / ".mlxbatch" / "tmp").iterdir()) == []
        assert {result["status"] for result in self.run()} == {"skipped"}


class RealVictim(Victim):
    """The same on real weights and real recordings, over and over until there are as many as are wanted.

    Formats without log-probabilities: their last digits depend on who else is in the batch.
    """

    program = ("mlxbatch", "--format", "txt,srt", "--language", "en")
    begin = 4.0
    moment = 2.0

    def record(self) -> None:
        found = sorted((ROOT / "examples").rglob("*.wav"))
        (self.folder / "in").mkdir()
        for number in range(self.count):
            shutil.copy(found[number % len(found)], self.folder / "in" / f"{number:03}.wav")


@contextmanager
def _ledger(state: Path) -> Iterator[sqlite3.Connection]:
    """A copy of the ledger: to open the file itself would already mend what the next run has to mend."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("ledger.sqlite3", "ledger.sqlite3-wal"):
            if (state / name).exists():
                shutil.copy(state / name, folder)
        with closing(sqlite3.connect(Path(folder, "ledger.sqlite3"))) as connection:
            yield connection


def outputs(folder: Path) -> dict[str, bytes]:
    """All files below a folder, hidden ones too, but for the run's own state."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.relative_to(folder).parts[0] != ".mlxbatch"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def _read_until_done(process: subprocess.Popen[str], count: int) -> bool:
    """Wait until `count` files are done in this run; False where it ends before."""
    assert process.stdout is not None
    for line in process.stdout:
        count -= json.loads(line).get("status") == "done"
        if count == 0:
            return True
    return False


def _family(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def kill_often(victim: Victim, times: int, say: Callable[[str], None]) -> None:
    """Kill `times` runs; whenever all is done, finish, and begin anew in an empty output."""
    seed = random.SystemRandom().getrandbits(32)
    say(f"seed {seed}")
    dice = random.Random(seed)
    for number in range(times):
        victim.kill(dice)
        if victim.check() == victim.count:
            say(f"all done after {number + 1} kills")
            victim.finish()
            (victim.folder / "out").rename(victim.folder / f"done-{number}")
    victim.finish()
