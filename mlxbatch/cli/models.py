"""`mlxbatch models`: which there are, what is known of one, fetching one ahead of a run, where one lies."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from mlxbatch.cli import options

app = typer.Typer(help="The models: list them, fetch one ahead of a run, find its directory.", no_args_is_help=False)

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="A name of `mlxbatch models list`, a model's directory, or a hub id org/name."),
]

Directories = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[DIR]...",
        help="Models that `mlxbatch convert` made, or directories of such.",
        show_default=False,
    ),
]


@app.callback(invoke_without_command=True)
def _models(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


LIST_EPILOG = """
Examples:

mlxbatch models list models/

mlxbatch models list --json | jq -r 'select(.on_disk) | .name'
"""


@app.command("list", epilog=LIST_EPILOG)
def list_models(directories: Directories = None, as_json: options.Json = False, debug: options.Debug = False) -> None:
    """The models that have a short name: languages, size, recommended settings, licence, and whether they are here.

    Any other model of these families works as well, by its directory or its hub id. Below them the models that
    `mlxbatch convert` made, in the directories given and in the cache: their bits a weight, size, and what was lost.
    """
    from mlxbatch.cli import converted_table
    from mlxbatch.cli.model_table import record, rows, table
    from mlxbatch.models.cache import models_root
    from mlxbatch.models.catalogue import CATALOGUE
    from mlxbatch.models.resolve import on_disk

    found = [(model, on_disk(model)) for model in CATALOGUE]
    made = converted_table.find(directories or [], models_root())
    if as_json:
        for one in (*(record(*known) for known in found), *(converted_table.record(*own) for own in made)):
            print(json.dumps(one))
        return
    for line in table(rows(found)):
        print(line)
    for line in ("", *table(converted_table.rows(made))) if made else ():
        print(line)


@app.command("show", epilog="Example: mlxbatch models show whisper-large-v3-turbo")
def show_model(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name of `mlxbatch models list`.")],
    as_json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """All that is known of one model of the list, and where each figure comes from."""
    from mlxbatch.cli.model_table import details, record
    from mlxbatch.models.resolve import known, on_disk

    model = known(name)
    here = on_disk(model)
    for line in (json.dumps(record(model, here)),) if as_json else details(model, here):
        print(line)


@app.command("pull", epilog="Example: mlxbatch models pull whisper-large-v3-turbo")
def pull_model(name: Name, debug: options.Debug = False) -> None:
    """Fetch a model onto this machine, check that it is whole, and print its directory.

    A download that was cut goes on where it stopped. Models of the hub go into the hub's own cache (HF_HOME); for
    private ones, and those with terms to accept, log in with `hf auth login` or set HF_TOKEN.
    """
    _print_path(name, offline=False)


@app.command("path", epilog='Example: ls "$(mlxbatch models path whisper-base)"')
def model_path(name: Name, debug: options.Debug = False) -> None:
    """Print the directory of a model that is on this machine and whole; nothing is fetched."""
    from mlxbatch.errors import NotHere, SetupError, show

    try:
        _print_path(name, offline=True)
    except NotHere as error:
        if not error.what:
            raise
        raise SetupError(f"{error.what}: `mlxbatch models pull {show(name)}` fetches it") from error


def _print_path(name: str, *, offline: bool) -> None:
    from mlxbatch.models.resolve import resolve

    found = resolve(name, offline=offline, say=lambda text: print(f"mlxbatch: {text}", file=sys.stderr, flush=True))
    print(found.path)
