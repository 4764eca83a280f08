"""What an error comes to: the one line that says it, and the exit code."""

from __future__ import annotations

import typer

from mlxbatch.disk import FULL, cause
from mlxbatch.errors import Interrupted, MlxBatchError, SetupError, show


def verdict(error: BaseException) -> tuple[str, int]:
    """One line and an exit code."""
    match error:
        case Interrupted():
            return str(error), error.exit_code
        case KeyboardInterrupt() | typer.Abort():
            return "interrupted", Interrupted.exit_code
        case MlxBatchError():
            return f"error: {error}", error.exit_code
        case typer.TyperException():
            return f"error: {error.format_message()}{_hint(error)}", error.exit_code
        case OSError() if error.errno in FULL:
            where = f"{show(error.filename)}: " if error.filename else ""
            return f"error: {where}{cause(error)}", SetupError.exit_code
    first = (str(error).splitlines() or [""])[0]
    what = f"{type(error).__name__}: {show(first)}" if first else type(error).__name__
    return f"error: a bug of ours: {what} (run again with --debug and send the traceback)", MlxBatchError.exit_code


def _hint(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return f" (see {context.command_path} --help)" if context is not None else ""
