"""Damaged recordings, and what probing and decoding make of them in a process of their own: it may die, or hang.

Run as a program (`python -m tests.faults.mutations`) it is that process: paths come in a line each, what became of them
goes out in a line each.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 10.0  # for one file; on a busy machine as well


def flip_bits(content: bytearray, rng: np.random.Generator) -> bytearray:
    for at in rng.integers(0, len(content), int(rng.integers(1, 30))):
        content[at] ^= 1 << int(rng.integers(8))
    return content


def cut(content: bytearray, rng: np.random.Generator) -> bytearray:
    """The end is missing, or a piece of the middle."""
    at = int(rng.integers(1, len(content) + 1))
    return content[:at] if rng.random() < 0.5 else content[:at] + content[at + int(rng.integers(1, 5000)) :]


def insert(content: bytearray, rng: np.random.Generator) -> bytearray:
    at = int(rng.integers(0, len(content) + 1))
    return content[:at] + bytearray(rng.bytes(int(rng.integers(1, 3000)))) + content[at:]


def spoil_header(content: bytearray, rng: np.random.Generator) -> bytearray:
    for at in rng.integers(0, min(len(content), 256), int(rng.integers(1, 9))):
        content[at] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF, int(rng.integers(256))]))
    return content


KINDS: Sequence[Callable[[bytearray, np.random.Generator], bytearray]] = (flip_bits, cut, insert, spoil_header)


def mutations(originals: Sequence[Path], count: int, seed: int, folder: Path) -> Iterator[Path]:
    """`count` damaged copies in turn of the originals; each is gone when the next is asked for."""
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        original = originals[number % len(originals)]
        kind = KINDS[number // len(originals) % len(KINDS)]
        path = folder / f"{number:04d}-{kind.__name__}-{original.name}"
        path.write_bytes(kind(bytearray(original.read_bytes()), rng))
        yield path
        path.unlink()


@dataclass
class Verdicts:
    """`decoded`, `truncated` and `failed` count files; `faults` are what must not be."""

    decoded: int = 0
    truncated: int = 0
    failed: int = 0
    slowest: float = 0.0
    faults: list[str] = field(default_factory=list)


def judge(paths: Iterator[Path], chatter: Path) -> Verdicts:
    """Probe and decode each file in a child. What the child's libraries print goes into the file `chatter`."""
    verdicts = Verdicts()
    with chatter.open("wb") as errors:
        child = _start(errors)
        try:
            for path in paths:
                answer = _ask(child, path)
                if answer is None:
                    child.kill()  # nothing to one that is dead
                    verdicts.faults.append(f"{path.name}: {_end(child)}")
                    child = _start(errors)
                else:
                    _count(verdicts, path, answer)
        finally:
            child.kill()
            child.communicate()
    verdicts.faults += chatter.read_text("utf-8", "replace").splitlines()
    return verdicts


def _count(verdicts: Verdicts, path: Path, answer: dict[str, Any]) -> None:
    verdicts.slowest = max(verdicts.slowest, answer["took"])
    if fault := answer.get("fault"):
        verdicts.faults.append(f"{path.name}: {fault}")
    elif "cause" in answer:
        verdicts.failed += 1
    else:
        verdicts.decoded += 1
        verdicts.truncated += answer["truncated"]


def _start(errors: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-W", "error", "-m", "tests.faults.mutations"]
    child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    return child


def _ask(child: subprocess.Popen[bytes], path: Path) -> dict[str, Any] | None:
    """What became of a file; None where the child died or hangs."""
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(json.dumps(str(path)).encode() + b"\n")
    child.stdin.flush()
    if not select.select([child.stdout], [], [], LIMIT_S)[0]:
        return None
    line = child.stdout.readline()
    return json.loads(line) if line else None


def _end(child: subprocess.Popen[bytes]) -> str:
    child.communicate()  # its pipes are closed as well
    code = child.returncode
    return f"over {LIMIT_S:.0f} s" if code == -9 else f"died with code {code}"


def _main() -> None:
    import time

    from mlxbatch.libav import LibavSource as LibavSource  # before the clock of the first file runs

    print("ready", flush=True)
    for line in sys.stdin:
        began = time.monotonic()
        answer = _attempt(Path(json.loads(line)))
        print(json.dumps({**answer, "took": time.monotonic() - began}), flush=True)


def _attempt(path: Path) -> dict[str, Any]:
    from mlxbatch.audio import decode
    from mlxbatch.errors import ItemError
    from mlxbatch.probe import probe
    from mlxbatch.types import Item

    item = Item("id", path, Path(path.stem))
    try:
        probed, recording = probe(item), decode(item)
    except ItemError as error:
        whole = error.path == path and error.stage in ("probe", "decode") and error.cause
        return {"cause": error.cause} if whole and "\n" not in str(error) else {"fault": f"says {str(error)!r}"}
    except BaseException as error:
        return {"fault": f"raises {error!r}"}
    if not (np.isfinite(recording.samples).all() and np.abs(recording.samples).max(initial=0.0) <= 1.0):
        return {"fault": "samples that are not finite, or beyond full scale"}
    if not (np.isfinite(probed.seconds) and probed.seconds >= 0 and probed.channels > 0):
        return {"fault": f"a header that says {probed.seconds} s, {probed.channels} channels"}
    return {"seconds": recording.seconds, "truncated": recording.truncated}


if __name__ == "__main__":
    _main()
