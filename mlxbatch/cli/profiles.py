"""`mlxbatch profiles`: which there are, what is in effect here, whether a file is right."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mlxbatch.cli import options

if TYPE_CHECKING:
    from mlxbatch.profile import Loaded

app = typer.Typer(help="Hardware profiles: list them, show the settings in effect, check a file.")


@app.callback(invoke_without_command=True)
def _profiles(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list")
def list_profiles(as_json: options.Json = False, debug: options.Debug = False) -> None:
    """All profiles; an asterisk marks the one that a run here uses."""
    from mlxbatch.profile import available, load

    chosen = load().sources[0].stem
    names = available()
    width = max(len(name) for name in names)
    for name in names:
        about = load(name).profile.description
        if as_json:
            print(json.dumps({"name": name, "chosen": name == chosen, "description": about}))
        else:
            print(f"{'*' if name == chosen else ' '} {name:<{width}}  {about}")


@app.command("show", epilog="Example: mlxbatch profiles show linux-cpu > mine.toml")
def show_profile(
    name: Annotated[str | None, typer.Argument(metavar="[NAME|FILE]", help="Default: the one in use here.")] = None,
    as_json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """The settings in effect, as TOML: the profile, with the user's and this directory's settings over it."""
    from mlxbatch.errors import show
    from mlxbatch.profile import load

    loaded = load(name)
    print(f"mlxbatch: from {', '.join(show(path) for path in loaded.sources)}", file=sys.stderr)
    for note in loaded.notes:
        print(f"mlxbatch: {note}", file=sys.stderr)
    tree = _tree(loaded)
    print(json.dumps(tree) if as_json else _toml(tree), end="\n" if as_json else "")


@app.command("check", epilog="Example: mlxbatch profiles check mine.toml")
def check_profiles(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Profiles, as TOML files.")],
    debug: options.Debug = False,
) -> None:
    """Whether profiles are right: "ok", or which line is wrong and what it may be."""
    from mlxbatch.errors import show
    from mlxbatch.profile import load

    for file in files:
        # Made absolute, so that a bare name is a file; and by itself, without the settings files over it.
        load(str(file.absolute()), project=Path("/dev/null/none"), user_dir=Path("/dev/null/none"))
        print(f"{show(file)}: ok")


def _tree(loaded: Loaded) -> dict[str, Any]:
    tree: dict[str, Any] = loaded.profile.model_dump(by_alias=True, exclude_none=True)
    return tree


def _toml(tree: dict[str, Any]) -> str:
    """TOML of a table of values and of tables one level deep. A JSON string is a basic string of TOML's."""
    top = [f"{key} = {_value(value)}" for key, value in tree.items() if not isinstance(value, dict)]
    for key, table in tree.items():
        if isinstance(table, dict):
            top += ["", f"[{key}]", *(f"{inner} = {_value(value)}" for inner, value in table.items())]
    return "\n".join(top) + "\n"


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_value(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)
