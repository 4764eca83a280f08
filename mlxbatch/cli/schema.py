"""`mlxbatch schema`: what is written as JSON, for programs that read it."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from mlxbatch.cli import options

EPILOG = "Example: mlxbatch schema transcript > transcript.schema.json"


def schema(
    name: Annotated[
        Literal["transcript", "line"], typer.Argument(help="transcript: a .json file; line: a line of a .jsonl file.")
    ] = "transcript",
    debug: options.Debug = False,
) -> None:
    """Print the JSON Schema of what is written as JSON."""
    from mlxbatch.writers.schema import schema_text

    print(schema_text(name), end="")
