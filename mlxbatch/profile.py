"""Hardware profiles and settings: find the files, lay them over one another, validate once, say what is wrong where.

Precedence, highest first: overrides (flags, then MLXBATCH_* variables, both given by the CLI), `./mlxbatch.toml`, the
user's `config.toml`, the profile, the defaults. The two settings files may hold any of a profile's keys, and
`profile = "NAME"` (or a file, relative to theirs) to choose the profile they lie over.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlxbatch.budget import parse_bytes as parse_bytes
from mlxbatch.errors import UsageError, show
from mlxbatch.headerless import RuleError
from mlxbatch.toml_lines import line_of
from mlxbatch.words import near, nearest

if TYPE_CHECKING:
    from mlxbatch.profile_schema import Profile

PROJECT_FILE = Path("mlxbatch.toml")
FALLBACK = "linux-cpu"
Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A validated profile, the files it came from (lowest precedence first), and what the user should know.

    `why` says what chose the profile: "--profile", the settings file and line that names it, or the platform.
    """

    profile: Profile
    sources: tuple[Path, ...]
    notes: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Layer:
    """One source of settings. `path` is None for the command line and environment."""

    path: Path | None
    text: str = ""
    tree: Tree = field(default_factory=dict)

    def at(self, key: str) -> str:
        """Where the key is set: "file:line", the file alone where the line cannot be found."""
        if self.path is None:
            return "command line or environment"
        line = line_of(key, self.text)
        return f"{show(self.path)}:{line}" if line else show(self.path)


def load(
    name_or_file: str | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    project: Path = PROJECT_FILE,
    user_dir: Path | None = None,
) -> Loaded:
    """The settings of this run.

    `name_or_file` is a profile's name, or a path (it ends in .toml or has a slash); None takes the one that a settings
    file names, else the one for this platform. `overrides` maps dotted keys to values: {"transcribe.batch_size": 4};
    None values are left out. `user_dir` is platformdirs' user_config_path("mlxbatch") unless given.

    UsageError for an unknown profile or key, a value that is not allowed, or a file that is not TOML or not readable.
    """
    user_dir = _user_dir() if user_dir is None else user_dir
    settings = [layer for path in (user_dir / "config.toml", project) if (layer := _read_if_there(path))]
    chosen, why, notes = _choose(name_or_file, settings, user_dir)
    layers = [_read(chosen), *(_without_choice(layer) for layer in settings), _overrides(overrides or {})]
    profile = _validate(layers)
    sources = tuple(layer.path for layer in layers if layer.path)
    return Loaded(profile, sources, (*notes, *_mismatch(profile)), why)


def available(user_dir: Path | None = None) -> list[str]:
    """Names of all profiles that can be asked for: the package's and the user's, sorted."""
    return sorted(_named(_user_dir() if user_dir is None else user_dir))


# --- which profile ---------------------------------------------------------------------------------------------------


def _choose(wanted: str | None, settings: Sequence[_Layer], user_dir: Path) -> tuple[Path, str, tuple[str, ...]]:
    """The profile's file, what chose it, and a note where nothing fitted this machine."""
    if wanted is not None:
        return _find(wanted, Path(), user_dir, "--profile"), "--profile", ()
    for layer in reversed(settings):
        if "profile" in layer.tree and layer.path:
            name = layer.tree["profile"]
            if not isinstance(name, str):
                raise UsageError(f"{layer.at('profile')}: profile = {name!r}: must be a profile's name or file")
            return _find(name, layer.path.parent, user_dir, layer.at("profile")), layer.at("profile"), ()
    return _for_this_machine()


def _find(wanted: str, base: Path, user_dir: Path, where: str) -> Path:
    if wanted.endswith(".toml") or "/" in wanted:
        path = base / Path(wanted).expanduser()
        if not path.is_file():
            raise UsageError(f"{where}: no such profile file: {show(path)}")
        return path
    named = _named(user_dir)
    if wanted not in named:
        hint = f"{nearest(wanted, named)} (there are: {', '.join(sorted(named))})"
        raise UsageError(f"{where}: unknown profile {wanted!r}{hint}")
    return named[wanted]


def _named(user_dir: Path) -> dict[str, Path]:
    """Name -> file; a profile of the user's stands before the package's of the same name."""
    folders = (package_profiles(), user_dir / "profiles")
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.toml"))}


def package_profiles() -> Path:
    """The folder of the profiles that come with the package: in the wheel, or at the root of a source checkout."""
    package = Path(str(resources.files("mlxbatch")))
    installed = package / "profiles"
    return installed if installed.is_dir() else package.parent / "profiles"


def _for_this_machine() -> tuple[Path, str, tuple[str, ...]]:
    """The package's own profile for this platform, one for this very machine before one for any."""
    here, machine = this_machine()
    found = []
    for path in sorted(package_profiles().glob("*.toml")):
        tree = _read(path).tree
        if tree.get("platform") == here and tree.get("machine", "any") in (machine, "any"):
            found.append((tree.get("machine", "any") == "any", path))
    why = f"{here} on {machine}"
    if found:
        return min(found)[1], why, ()
    return package_profiles() / f"{FALLBACK}.toml", why, (f"no profile for {why}: {FALLBACK} is used",)


def this_machine() -> tuple[str, str]:
    """(platform, machine) in the words of a profile: ("linux", "x86_64"), ("darwin", "arm64")."""
    machine = platform.machine().lower()
    return sys.platform, {"aarch64": "arm64", "amd64": "x86_64"}.get(machine, machine)


def _mismatch(profile: Profile) -> tuple[str, ...]:
    here, machine = this_machine()
    if profile.platform in (here, "any") and profile.machine in (machine, "any"):
        return ()
    meant = f"{profile.platform} on {profile.machine}"
    return (f"profile {profile.name} is meant for {meant}; this is {here} on {machine}",)


def _user_dir() -> Path:
    """Where the user's settings are; for a user without a home, a place where nothing can be."""
    from platformdirs import user_config_path

    try:
        return user_config_path("mlxbatch")
    except (RuntimeError, OSError, KeyError):
        return Path(os.devnull, "mlxbatch")


# --- reading and merging ---------------------------------------------------------------------------------------------


def _read(path: Path) -> _Layer:
    try:
        # utf-8-sig: Windows editors put a byte order mark first, which TOML does not allow.
        text = path.read_bytes().decode("utf-8-sig")
        return _Layer(path, text, tomllib.loads(text))
    except OSError as error:
        raise UsageError(f"cannot read {show(path)}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{show(path)}: not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        number = line[1] if line else str(max(1, len(text.splitlines())))
        raise UsageError(f"{show(path)}:{number}: not valid TOML: {error}") from error


def _read_if_there(path: Path) -> _Layer | None:
    """A settings file may be missing, but one that is there and cannot be read is not passed over."""
    return _read(path) if os.path.lexists(path) else None


def _without_choice(layer: _Layer) -> _Layer:
    return _Layer(layer.path, layer.text, {key: value for key, value in layer.tree.items() if key != "profile"})


def _overrides(values: Mapping[str, object]) -> _Layer:
    tree: Tree = {}
    for dotted, value in values.items():
        if value is not None:
            *sections, key = dotted.split(".")
            node = tree
            for section in sections:
                node = node.setdefault(section, {})
            node[key] = value
    return _Layer(None, "", tree)


def _merged(low: Tree, high: Tree) -> Tree:
    """`high` over `low`, table by table."""
    result = dict(low)
    for key, value in high.items():
        below = result.get(key)
        result[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


# --- validation and its messages -------------------------------------------------------------------------------------


def _validate(layers: Sequence[_Layer]) -> Profile:
    from pydantic import ValidationError

    from mlxbatch.profile_schema import Profile, allowed

    tree: Tree = {}
    for layer in layers:
        tree = _merged(tree, layer.tree)
    try:
        return Profile.model_validate(tree)
    except ValidationError as error:
        known = allowed()
        problems = [
            _problem(found["type"], found["loc"], tree, layers, known, found.get("ctx", {}).get("error"))
            for found in error.errors()
        ]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise UsageError(problems[0] + more) from error


def _problem(
    kind: str,
    loc: tuple[int | str, ...],
    tree: Tree,
    layers: Sequence[_Layer],
    known: Mapping[str, str],
    error: object = None,
) -> str:
    key = ".".join(str(part) for part in loc)
    holders = [layer for layer in layers if _get(layer.tree, loc) is not None]
    if not holders:
        return f"{layers[0].at('')}: {key} is missing: must be {known.get(key, 'given')}"
    where = holders[-1].at(key)
    if kind == "extra_forbidden":
        return f"{where}: unknown key {key!r}{_nearest(key, known)}"
    if isinstance(error, RuleError):
        return f"{where}: {key} = {_toml(_get(tree, loc))}: {error}"
    allowed = known.get(key) or known.get(key.rpartition(".")[0], "another value")  # of a table of free names
    return f"{where}: {key} = {_toml(_get(tree, loc))}: must be {allowed}"


def _nearest(key: str, known: Mapping[str, str]) -> str:
    """A hint at the right key: near in the same table, of the same name in another, or near anywhere."""
    section, _, last = key.rpartition(".")
    names = [*known, *({"profile"} - {key})]
    here = {name.rpartition(".")[2]: name for name in names if name.rpartition(".")[0] == section}
    elsewhere = {name.rpartition(".")[2]: name for name in names}
    for keys, likeness in ((here, 0.6), (elsewhere, 0.6), (here, 0.4)):
        if found := near(last, keys, likeness):
            return f"; did you mean {keys[found]!r}?"
    return f" (there are: {', '.join(here)})" if here else ""


def _get(tree: object, loc: tuple[int | str, ...]) -> object:
    for part in loc:
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tree


def _toml(value: object) -> str:
    """A value as it stood in the file, short enough for one line."""
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
    text = f'"{show(value)}"' if isinstance(value, str) else text
    return text if len(text) <= 60 else text[:57] + "..."
