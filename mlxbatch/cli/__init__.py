"""The command line: one module per command, and here the one place where errors become exit codes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer
import typer.main

from mlxbatch import __version__
from mlxbatch.cli import convert, convert_compare, doctor, models, options, profiles, report, schema, transcribe
from mlxbatch.cli.command_names import WithTwoWords
from mlxbatch.cli.ending import Ending
from mlxbatch.cli.verdict import verdict
from mlxbatch.errors import MlxBatchError
from mlxbatch.signals import held_signals, stop_signals
from mlxbatch.stdio import complain

EPILOG = """
Examples:

mlxbatch transcribe recordings/ -o text/

mlxbatch transcribe calls/ -o out/ --format txt,srt --dry-run

mlxbatch report out/ -o night.html

mlxbatch convert openai/whisper-small -o models/small

mlxbatch models list

mlxbatch doctor out/

`mlxbatch COMMAND --help` says more, with every option.

Exit codes: 0 done, 1 some files failed, 2 usage, 3 environment, 4 output in use, 5 ledger damaged, 6 a --fail-if \
condition is met, 70 our bug, 129, 130 and 143 stopped.
"""

app = typer.Typer(
    name="mlxbatch",
    cls=WithTwoWords,
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
app.command("convert", epilog=convert.EPILOG)(convert.convert)
app.command("convert compare", epilog=convert_compare.EPILOG)(convert_compare.compare)
app.command("doctor", epilog=doctor.EPILOG)(doctor.doctor)
app.command("report", epilog=report.EPILOG)(report.report)
app.command("schema", epilog=schema.EPILOG)(schema.schema)
app.add_typer(models.app, name="models")
app.add_typer(profiles.app, name="profiles")


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; what went wrong is one line on standard error."""
    ending = Ending()
    try:
        with stop_signals():
            return _write_metrics(_run(arguments, ending), ending)
    except BaseException as error:  # a signal, after the command itself
        return _report(error, ending)


def _run(arguments: Sequence[str], ending: Ending) -> int:
    try:
        command = typer.main.get_command(app)
        return command.main(list(arguments), "mlxbatch", standalone_mode=False, obj=ending) or 0
    except SystemExit as error:
        # Nobody reads standard output any more (`| head`): typer has seen to it, and nothing is to be said.
        return error.code if isinstance(error.code, int) else 1
    except BaseException as error:
        return _report(error, ending)


def _write_metrics(code: int, ending: Ending) -> int:
    """The exit code, which is no longer 0 where the metrics that were asked for could not be written."""
    try:
        with held_signals():
            ending.write_metrics(code)
    except MlxBatchError as error:
        told = _report(error, ending)
        return code or told
    return code


def _report(error: BaseException, ending: Ending) -> int:
    """Say what went wrong, and return the exit code for it."""
    if ending.debug:
        import traceback

        with suppress(OSError, ValueError):
            traceback.print_exception(error)
    line, code = verdict(error)
    complain(line)
    ending.tell(line)
    return code
