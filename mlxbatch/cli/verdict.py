"""What an error comes to: the one line that says it, and the exit code."""

from __future__ import annotations

import re

import typer

from mlxbatch.disk import FULL, cause
from mlxbatch.errors import Interrupted, MlxBatchError, SetupError, show

_KINDS = {
    "boolean": "must be true or false (or yes or no, on or off, 1 or 0)",
    "integer": "must be a whole number",
    "number": "must be a number",
}


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
            return f"error: {_plain(error.format_message())}{_hint(error)}", error.exit_code
        case OSError() if error.errno in FULL:
            where = f"{show(error.filename)}: " if error.filename else ""
            return f"error: {where}{cause(error)}", SetupError.exit_code
    first = (str(error).splitlines() or [""])[0]
    what = f"{type(error).__name__}: {show(first)}" if first else type(error).__name__
    return f"error: a bug of ours: {what} (run again with --debug and send the traceback)", MlxBatchError.exit_code


def _plain(message: str) -> str:
    """Without the words of the library that reads options: "Value error, ", "Input should be a valid boolean, ..."."""
    message = re.sub(r"\bInput should be a valid (\w+)\b.*", lambda found: _KINDS.get(found[1], found[0]), message)
    return message.replace("Value error, ", "").removesuffix(".")


def _hint(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return f" (see {context.command_path} --help)" if context is not None else ""
