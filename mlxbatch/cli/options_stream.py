"""The option for a stream, and what cannot be asked for beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from mlxbatch.cli.options import PANEL_SHOW
from mlxbatch.errors import UsageError

Stream = Annotated[
    bool,
    typer.Option(
        "--stream",
        help="Print what is said as it is heard, a segment a line (with --json an object a line), one recording after "
        "the other. Nothing is written or remembered. - as input is standard input.",
        rich_help_panel=PANEL_SHOW,
    ),
]

# Parameters of runs that write files and remember them -> the option, and why it means nothing here.
_FILES = "a stream writes no files"
_MEMORY = "a stream remembers nothing"
_WHOLE = "a stream begins at once and goes on to its end"
_REFUSED = {
    "output": ("-o", f"{_FILES}: redirect standard output instead"),
    "formats": ("--format", f"{_FILES}: lines, or objects with --json, are what it prints"),
    "root": ("--root", _FILES),
    "force": ("--force", _MEMORY),
    "retry_quarantined": ("--retry-quarantined", _MEMORY),
    "break_lock": ("--break-lock", _MEMORY),
    "keep_runs": ("--keep-runs", _MEMORY),
    "metrics_file": ("--metrics-file", "metrics are those of runs that write files"),
    "wait": ("--wait", _WHOLE),
    "time_limit": ("--time-limit", _WHOLE),
    "max_load": ("--max-load", _WHOLE),
    "dry_run": ("--dry-run", _WHOLE),
    "fallback_model": ("--fallback-model", "no other model can go on in the middle of a text"),
}


def output_of(context: typer.Context, output: Path | None, *, stream: bool) -> Path:
    """Where results go; of a stream nowhere. UsageError where -o is missing, or an option does not go with --stream.

    What the environment says for runs that write files is no reason to refuse a stream.
    """
    if not stream:
        if output is None:
            ways = "name a directory with --output (-o), or print what is said as it is heard with --stream"
            raise UsageError(f"no output: {ways} (see {context.command_path} --help)")
        return output
    for parameter, (option, why) in _REFUSED.items():
        source = context.get_parameter_source(parameter)
        if source is not None and source.name == "COMMANDLINE":
            raise UsageError(f"{option} does not go with --stream: {why}")
    return Path(os.devnull)
