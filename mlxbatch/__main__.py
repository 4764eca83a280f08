"""The program itself: `mlxbatch`, or `python -m mlxbatch`. A spawned child imports this module, so it stays light."""

from __future__ import annotations

import os
import sys
import threading

from mlxbatch.stdio import prepare, settle


def main() -> None:
    """Run the command line and end the process with its exit code."""
    prepare()
    try:
        from mlxbatch.cli import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before `run` sees to signals itself
        code = 130
    code = settle(code)
    if threading.active_count() > 1:
        _leave(code)
    sys.exit(code)


def _leave(code: int) -> None:
    """End now: Python would first wait for a thread that is in the middle of decoding, or tear MLX down under one."""
    os._exit(code)


if __name__ == "__main__":
    main()
