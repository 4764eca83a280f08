"""`python -m tests.soak.scale_run transcribe ...`: the program with made-up headers, up to where the plan is made.

The files need not hold sound, and the model is the fake one. Prints a JSON object: how many recordings were planned,
seconds of processor time and of the clock since the program began, and its peak memory in bytes.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Sequence
from typing import Any

import psutil

from mlxbatch.__main__ import main
from mlxbatch.types import Item, Planned, Probed


def header(item: Item, rules: object) -> Probed:
    """Up to ten minutes, different for each."""
    return Probed(item, int(item.id[:8], 16) / 2**32 * 600, 8000, 1)


def tell(planned: Sequence[Planned]) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    figures = {
        "planned": len(planned),
        "cpu_s": used.ru_utime + used.ru_stime,
        "wall_s": time.time() - psutil.Process().create_time(),
        "peak_bytes": used.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
    }
    print(json.dumps(figures), flush=True)
    os._exit(0)  # what comes after is not asked for


if __name__ == "__main__":
    from mlxbatch import reading
    from mlxbatch.cli import request, session

    def choose(name: str, **_: Any) -> request.Chosen:
        return request.Chosen("fake", name, "0" * 64, None, {})

    request.choose = choose  # type: ignore[assignment]
    reading.probe = header
    session.Session.planned = lambda self, planned: tell(planned)  # type: ignore[assignment]
    main()
