"""A disk that is full from the nth write of a run on, and what the run makes of it: for the short proof and the long.

The whole program over the fake engine, as a process of its own, with tests/faults/enospc.c before its system calls.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import soundfile

from mlxbatch.stored import unpack_outputs
from tests.kills import outputs

ROOT = Path(__file__).resolve().parents[2]
RATE = 16_000
Mode = Literal["all", "once", "torn"]

# Calls of which a run may do without: it looks for a way to make nameless files (filelock), makes new names last
# through a power cut where the file system can, and notes that the ledger needs no reading through next time.
_OPTIONAL = (
    *(("open", ".mlxbatch"), ("fsync", ""), ("fsync", "sub"), ("fdatasync", ".mlxbatch")),
    *(("open", ".mlxbatch/ledger.closed"), ("write", ".mlxbatch/ledger.closed")),
)


def build(folder: Path) -> Path:
    """The library to load before the program; raises CalledProcessError with the compiler's words."""
    library = folder / "enospc.so"
    source = Path(__file__).with_name("enospc.c")
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *flags, "-o", str(library), str(source)], check=True)
    return library


@dataclass(frozen=True)
class Call:
    """One call that asked the disk for room; `path` is below the output root, "" is the root itself."""

    number: int
    fault: bool
    name: str
    path: str

    @property
    def optional(self) -> bool:
        return (self.name, self.path) in _OPTIONAL


@dataclass
class Ran:
    code: int
    err: str
    calls: list[Call] = field(repr=False)

    @property
    def struck(self) -> Call | None:
        """The first call that failed."""
        return next((call for call in self.calls if call.fault), None)


@dataclass
class FullDisk:
    """Recordings below in/, what an earlier run left in before/, and out/, which each run begins anew with that."""

    folder: Path
    library: Path
    arguments: tuple[str, ...] = ("--workers", "0")
    environment: dict[str, str] = field(default_factory=dict)
    full: str = ""  # the folder on the disk that is full, where it is not the output
    reference: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder = self.folder.resolve()
        for number, name in enumerate(("a", "b", "sub/c")):
            self.record(name, RATE // 4 + 40 * number)

    def record(self, name: str, samples: int) -> None:
        path = self.folder / "in" / f"{name}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, np.full(samples, 0.1, np.float32), RATE)

    def prepare_earlier_run(self) -> None:
        """A run that came before: every further one begins with what it left, one file touched, and a new one."""
        self._run("before", "--format", "txt")
        os.utime(self.folder / "in" / "a.wav", (1, 1))
        self.record("d", RATE // 3)

    def measure(self) -> list[Call]:
        """The undisturbed run: its outputs are the reference, and where it asks for room."""
        ran = self.run()
        assert (ran.code, ran.err) == (0, "")
        self.reference = outputs(self.folder / "out")
        return ran.calls

    def run(self, at: int = 0, mode: Mode = "all") -> Ran:
        """A run that begins with what was prepared, on a disk that is full from call `at` on; 0 is never."""
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        if (self.folder / "before").exists():
            shutil.copytree(self.folder / "before", self.folder / "out", symlinks=True)
        return self._run("out", at=at, mode=mode)

    def again(self) -> Ran:
        """A run after space was freed."""
        return self._run("out")

    def _run(self, output: str, *arguments: str, at: int = 0, mode: Mode = "all") -> Ran:
        log = self.folder / "calls"
        log.write_text("")
        root = self.folder / (self.full or output)
        fault = {"LD_PRELOAD": str(self.library), "FAULT_ROOT": str(root), "FAULT_LOG": str(log)}
        fault |= {"FAULT_AT": str(at), "FAULT_MODE": mode}
        options = [*self.arguments, *(arguments or ("--format", "txt,json")), "--batch-size", "1", "-q"]
        done = subprocess.run(
            [sys.executable, "-m", "tests.cli.fake_run", "transcribe", "in", "-o", output, *options],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(self.folder)} | self.environment | fault,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stdout == ""
        return Ran(done.returncode, done.stderr, list(_calls(log, root)))

    # ---- what is asked of a run

    def prove(self, at: int, mode: Mode = "all") -> Call | None:
        """Strike at one call, then free the space and run again: the call that was struck, None where none came."""
        ran = self.run(at, mode)
        struck = ran.struck
        survived = self._survived(ran, mode)
        self._check_told(ran, survived)
        self._check_tree()
        again = self.again()
        assert (again.code, again.err) == (0, ""), struck
        self._check_tree()
        assert outputs(self.folder / "out") == self.reference, struck
        assert not survived or self._ends()[-1]["done"] == 0, struck
        return struck

    def _survived(self, ran: Ran, mode: Mode) -> bool:
        """Whether it may have ended well: nothing was struck, nothing that counts, or only once and all is there."""
        harmless = all(call.optional for call in ran.calls if call.fault)
        return harmless or (mode == "once" and outputs(self.folder / "out") == self.reference and ran.code == 0)

    def _ends(self) -> list[dict[str, Any]]:
        """The ends of the runs so far, in order."""
        logs = sorted((self.folder / "out" / ".mlxbatch" / "runs").iterdir(), key=lambda path: path.stat().st_mtime_ns)
        return [json.loads(path.read_text("ascii").splitlines()[-1]) for path in logs]

    def _check_told(self, ran: Ran, survived: bool) -> None:
        """Exit 3 and one line that names the place, unless it ended well."""
        if survived:
            assert (ran.code, ran.err) == (0, ""), (ran, ran.struck)
            return
        assert ran.code == 3, (ran, ran.struck)
        assert re.fullmatch(r"mlxbatch: error: .*\bout\b.*\n", ran.err), (ran, ran.struck)

    def _check_tree(self) -> None:
        """Each output whole or absent, nothing else beside; no lock, no temporary file; a ledger and logs to read."""
        out = self.folder / "out"
        found = outputs(out)
        earlier = outputs(self.folder / "before")
        assert {
            name for name, content in found.items() if content not in (self.reference[name], earlier.get(name))
        } == set()
        state = out / ".mlxbatch"
        if not state.exists():
            return
        assert {path.name for path in state.iterdir()} <= {
            *("ledger.sqlite3", "ledger.sqlite3-wal", "ledger.sqlite3-shm", "ledger.sqlite3-journal"),
            *("ledger.closed", "lock", "runs", "tmp"),
        }
        assert not (state / "tmp").exists() or list((state / "tmp").iterdir()) == []
        for log in (state / "runs").glob("*.jsonl"):
            # A disk that does not even let a line be cut off again leaves half of the last one, as a kill may.
            assert all(json.loads(line)["event"] for line in log.read_text("ascii").split("\n")[:-1])
        if (state / "ledger.sqlite3").exists():
            _check_ledger(state, found)


def _check_ledger(state: Path, found: dict[str, bytes]) -> None:
    """A copy of it: to open the file itself would mend what the next run has to mend."""
    copy = state.parent.parent / "ledger"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    for path in state.glob("ledger.sqlite3*"):
        if not path.name.endswith("-shm"):
            shutil.copy(path, copy)
    with closing(sqlite3.connect(copy / "ledger.sqlite3")) as ledger:
        assert ledger.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        (version,) = ledger.execute("PRAGMA user_version").fetchone()
        if version:
            rows = ledger.execute("SELECT status, outputs FROM items").fetchall()
            assert {status for status, _ in rows} <= {"done"}
            assert {os.fsdecode(path) for _, packed in rows for path in unpack_outputs(packed)} <= set(found)


def _calls(log: Path, root: Path) -> Iterator[Call]:
    for line in log.read_text().splitlines():
        number, word, name, path = line.split(" ", 3)
        yield Call(int(number), word == "fault", name, path.removeprefix(str(root)).lstrip("/"))
