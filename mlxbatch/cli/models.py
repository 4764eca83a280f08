"""`mlxbatch models`: which there are, fetching one ahead of a run, where one lies."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from mlxbatch.cli import options

app = typer.Typer(help="The models: list them, fetch one ahead of a run, find its directory.", no_args_is_help=False)

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="A name of `mlxbatch models list`, a model's directory, or a hub id org/name."),
]


@app.callback(invoke_without_command=True)
def _models(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list")
def list_models(as_json: options.Json = False, debug: options.Debug = False) -> None:
    """The models that have a short name, with licence and size, and whether they are on this machine."""
    from mlxbatch.models.catalogue import CATALOGUE
    from mlxbatch.models.fetch import is_fetched
    from mlxbatch.words import size

    for model in CATALOGUE:
        here = is_fetched(model)
        record = {
            "name": model.name,
            "task": model.task,
            "size_bytes": model.size_bytes,
            "licence": model.licence,
            "on_disk": here,
            "title": model.title,
        }
        where = "on disk" if here else "not fetched"
        text = f"{model.name}  {model.task}  {size(model.size_bytes)}  {model.licence}  {where}  {model.title}"
        print(json.dumps(record) if as_json else text)


@app.command("pull", epilog="Example: mlxbatch models pull whisper-base")
def pull_model(name: Name, debug: options.Debug = False) -> None:
    """Fetch a model onto this machine, check that it is whole, and print its directory."""
    _print_path(name, offline=False)


@app.command("path", epilog='Example: ls "$(mlxbatch models path whisper-base)"')
def model_path(name: Name, debug: options.Debug = False) -> None:
    """Print the directory of a model that is on this machine and whole; nothing is fetched."""
    _print_path(name, offline=True)


def _print_path(name: str, *, offline: bool) -> None:
    from mlxbatch.models.resolve import resolve

    found = resolve(name, offline=offline, say=lambda text: print(f"mlxbatch: {text}", file=sys.stderr, flush=True))
    print(found.path)
