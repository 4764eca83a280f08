"""`mlxbatch profiles`: which there are, what is in effect here and where it is set, whether a file is right."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mlxbatch.cli import options

if TYPE_CHECKING:
    from mlxbatch.profile import Loaded

app = typer.Typer(help="Hardware profiles and presets: list them, show the settings in effect, check a file.")


@app.callback(invoke_without_command=True)
def _profiles(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list")
def list_profiles(as_json: options.Json = False, debug: options.Debug = False) -> None:
    """All profiles and presets; an asterisk marks what a run here uses, and the last line says why."""
    from mlxbatch.profile import available, load, presets

    here = load()
    profiles = {name: load(name).profile.description for name in available()}
    if as_json:
        for kind, chosen, found in (("profile", here.file, profiles), ("preset", here.preset, presets())):
            for name, about in found.items():
                print(json.dumps({"kind": kind, "name": name, "chosen": name == chosen, "description": about}))
        return
    _print_names(profiles, here.file)
    print("\nPresets, each of which lies over the profile (--preset NAME):")
    _print_names(presets(), here.preset)
    print(f"\n{here.name}, chosen by {here.why}")


def _print_names(found: Mapping[str, str], chosen: str) -> None:
    width = max((len(name) for name in found), default=0)
    for name, about in found.items():
        print(f"{'*' if name == chosen else ' '} {name:<{width}}  {about}")


@app.command("show", epilog="Example: mlxbatch profiles show linux-cpu > mine.toml")
def show_profile(
    name: Annotated[str | None, typer.Argument(metavar="[NAME|FILE]", help="Default: the one in use here.")] = None,
    preset: options.Preset = None,
    as_json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """The settings in effect, as TOML, each with where it is set: profile, preset, the user's, this directory's."""
    from mlxbatch.errors import show
    from mlxbatch.profile import load

    loaded = load(name, preset=preset)
    print(f"mlxbatch: {loaded.name}, chosen by {loaded.why}", file=sys.stderr)
    print(f"mlxbatch: from {', '.join(show(path) for path in loaded.sources)}", file=sys.stderr)
    for note in loaded.notes:
        print(f"mlxbatch: {note}", file=sys.stderr)
    tree = _tree(loaded)
    if as_json:
        print(json.dumps({**tree, "from": dict(loaded.origins)}))
    else:
        print(_toml(tree, loaded.origins), end="")


@app.command("check", epilog="Example: mlxbatch profiles check mine.toml")
def check_profiles(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Profiles, presets or settings, in TOML.")],
    debug: options.Debug = False,
) -> None:
    """Whether profiles are right: "ok", or which line is wrong and what it may be.

    A file with a schema is a profile, mlxbatch.toml and config.toml are settings; others are presets.
    """
    from mlxbatch.errors import UsageError, show

    problems = []
    for file in files:
        try:
            print(f"{show(file)}: {_checked(file)}")
        except UsageError as error:
            problems.append(error)
    if len(problems) == 1:
        raise problems[0]
    for problem in problems:
        print(f"mlxbatch: {problem}", file=sys.stderr)
    if problems:
        raise UsageError(f"{len(problems)} of {len(files)} files are not right")


def _checked(file: Path) -> str:
    """ "ok", and as what, where that is no profile. By itself: without the settings files that lie over it in a run.

    Raises UsageError.
    """
    from mlxbatch.profile import PROJECT_FILE, SETTINGS_FILE, load
    from mlxbatch.profile_layers import read

    tree, nowhere = read(file).tree, Path("/dev/null/none")
    named = str(file.absolute())  # so that a bare name is a file
    if file.name in (PROJECT_FILE.name, SETTINGS_FILE):
        load(project=file, user_dir=nowhere)
        return "ok, as settings"
    if "schema" in tree or "base" in tree:
        load(named, project=nowhere, user_dir=nowhere)
        # A preset may have one, too: whatever it is used as, it is right.
        return "ok"
    load(preset=named, project=nowhere, user_dir=nowhere)
    return "ok, as a preset (a profile has a schema)"


def _tree(loaded: Loaded) -> dict[str, Any]:
    """All settings; `base` is left out, as what it gave is in them."""
    tree: dict[str, Any] = loaded.profile.model_dump(by_alias=True, exclude_none=True, exclude={"base"})
    return tree


def _toml(tree: dict[str, Any], origins: Mapping[str, str]) -> str:
    """TOML of a table of values and of tables one level deep, with comments that say where each is set."""
    top = [_line(key, key, value, origins) for key, value in tree.items() if not isinstance(value, dict)]
    for section, table in tree.items():
        if isinstance(table, dict):
            top += ["", f"[{section}]"]
            top += [_line(key, f"{section}.{key}", value, origins) for key, value in table.items()]
    return "\n".join(top) + "\n"


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_value(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)  # a string, or a list of some, is TOML as well


def _line(key: str, dotted: str, value: object, origins: Mapping[str, str]) -> str:
    return f"{f'{key} = {_value(value)}':<40} # {origins.get(dotted, 'default')}"
