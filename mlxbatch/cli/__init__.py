"""The command line: one module per command, and here the one place where errors become exit codes."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr
from typing import Annotated

import typer
import typer.main

from mlxbatch import __version__
from mlxbatch.cli import models, options, profiles, transcribe
from mlxbatch.cli.streams import standard_error
from mlxbatch.errors import Interrupted, MlxBatchError, SetupError, show
from mlxbatch.signals import stop_signals

EPILOG = """
Examples:

mlxbatch transcribe recordings/ -o text/

mlxbatch transcribe calls/ -o out/ --format txt,srt --dry-run

mlxbatch models list

`mlxbatch COMMAND --help` says more, with every option.

Exit codes: 0 done, 1 some files failed, 2 usage, 3 environment, 4 output in use, 5 ledger damaged, 70 our bug, \
129, 130 and 143 stopped.
"""
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)

app = typer.Typer(
    name="mlxbatch",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        print(f"mlxbatch {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog=EPILOG)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
    debug: options.Debug = False,
) -> None:
    """Batch speech and audio work over whole directories, on MLX."""
    if context.invoked_subcommand is None:
        print(context.get_help())


app.command("transcribe", epilog=transcribe.EPILOG)(transcribe.transcribe)
app.add_typer(models.app, name="models")
app.add_typer(profiles.app, name="profiles")


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; what went wrong is one line on standard error."""
    with redirect_stderr(standard_error()):
        return _run(arguments)


def _run(arguments: Sequence[str]) -> int:
    shown = options.Shown()
    try:
        with stop_signals():
            command = typer.main.get_command(app)
            return command.main(list(arguments), "mlxbatch", standalone_mode=False, obj=shown) or 0
    except SystemExit as error:
        # Nobody reads standard output any more (`| head`): typer has seen to it, and nothing is to be said.
        return error.code if isinstance(error.code, int) else 1
    except BaseException as error:
        return _report(error, shown.debug)


def _report(error: BaseException, debug: bool) -> int:
    """Say what went wrong, and return the exit code for it."""
    if debug:
        import traceback

        traceback.print_exception(error)
    line, code = _verdict(error)
    print(f"mlxbatch: {line}", file=sys.stderr, flush=True)
    return code


def _verdict(error: BaseException) -> tuple[str, int]:
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
        case OSError() if error.errno in _DISK_FULL:
            where = f": {show(error.filename)}" if error.filename else ""
            return f"error: the disk is full{where}; free some space and run again", SetupError.exit_code
    first = (str(error).splitlines() or [""])[0]
    what = f"{type(error).__name__}: {show(first)}" if first else type(error).__name__
    return f"error: a bug of ours: {what} (run again with --debug and send the traceback)", MlxBatchError.exit_code


def _hint(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return f" (see {context.command_path} --help)" if context is not None else ""
