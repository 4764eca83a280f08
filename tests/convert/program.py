"""The program with directories in MLX's layout for sources: `python -m tests.convert.program convert SOURCE -o DIR`.

$SECONDS_PER_WEIGHT makes each weight take so long to read.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.convert.mlx_source import open_mlx

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def open_slowly(name: str, **about: Any) -> Iterator[Any]:
    """As `open_mlx`, with weights that take their time."""
    pause = float(os.environ.get("SECONDS_PER_WEIGHT", "0"))

    def slow(weight: Any) -> Any:
        def read() -> Any:
            time.sleep(pause)
            return weight.read()

        return replace(weight, read=read)

    with open_mlx(name, **about) as found:
        yield replace(found, weights={name: slow(weight) for name, weight in found.weights.items()})


def start(*arguments: str | Path, module: str = "tests.convert.program", **environment: str) -> subprocess.Popen[str]:
    """The program as a process, proofs left out; `module` is mlxbatch where its own readers are to read."""
    return subprocess.Popen(
        [sys.executable, "-m", module, "convert", *map(str, arguments), "--verify", "none"],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until(condition: Any, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


if __name__ == "__main__":
    from mlxbatch import blas
    from mlxbatch.__main__ import main

    blas.preload()
    from mlxbatch.convert import run

    run._opened = lambda order, say: open_slowly(order.source)
    sys.exit(main())
