"""Hardware profiles, presets and settings: lay them over one another, validate once, say what is wrong where.

Precedence, highest first: overrides (flags, then MLXBATCH_* variables, both given by the CLI), `./mlxbatch.toml`, the
user's `config.toml`, the preset, the profile, the defaults. The two settings files may hold any of a profile's keys,
and `profile = "NAME"` and `preset = "NAME"` (or files, relative to theirs) to choose what they lie over.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlxbatch import profile_choice
from mlxbatch.budget import parse_bytes as parse_bytes
from mlxbatch.errors import UsageError, show
from mlxbatch.hardware import Hardware, is_chip
from mlxbatch.hardware import this_hardware as this_hardware
from mlxbatch.headerless import RuleError
from mlxbatch.profile_choice import package_profiles as package_profiles
from mlxbatch.profile_layers import RULES, Layer, Tree, from_values, keys, merged, read, read_if_there
from mlxbatch.words import near

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

    from mlxbatch.profile_schema import Profile, When

PROJECT_FILE = Path("mlxbatch.toml")
SETTINGS_FILE = "config.toml"  # the user's
# What works without a GPU, for a profile that is meant for machines that have one.
_WITHOUT_GPU = {"device.kind": "cpu", "device.blas": "openblas", "transcribe.dtype": "float32"}
# What a profile says of itself: a preset does too, and the one that it lies over keeps its own.
_ABOUT = ("schema", "name", "description", "platform", "machine", "gpu", "chip", "base")
_OF_PROFILES = _ABOUT[3:]
_OF_FILES_WITH_A_NAME = _ABOUT[1:]
# What a run is told each time, and no file of settings has.
OPTIONS_ALONE = frozenset(
    {
        *("format", "language", "speakers", "output", "offline", "min_age", "wait", "time_limit", "max_load", "nice"),
        *("log_file", "log_level", "metrics_file"),
    }
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A validated profile, the files it came from (lowest precedence first), and what the user should know.

    `why` says what chose the profile: "--profile", the settings file and line that names it, or this machine.
    `origins` says of each key that is not left at its default where it is set: {"device.kind": "mine.toml:7"}.
    """

    profile: Profile
    sources: tuple[Path, ...]
    notes: tuple[str, ...] = ()
    why: str = ""
    preset: str = ""
    origins: Mapping[str, str] = field(default_factory=dict)
    file: str = ""  # the profile's file, by the name that --profile knows it by

    @property
    def name(self) -> str:
        """The profile's name and that of the preset over it: "linux-cpu + qa"."""
        return f"{self.profile.name} + {self.preset}" if self.preset else self.profile.name


def load(
    name_or_file: str | None = None,
    *,
    preset: str | None = None,
    overrides: Mapping[str, object] | None = None,
    project: Path = PROJECT_FILE,
    user_dir: Path | None = None,
) -> Loaded:
    """The settings of this run.

    `name_or_file` is a profile's name, or a path (it ends in .toml or has a slash); None takes the one that a settings
    file names, else the nearest for this machine. `preset` is the same for presets, of which there need be none.
    `overrides` maps dotted keys to values: {"transcribe.batch_size": 4}; None values are left out. `user_dir` is
    platformdirs' user_config_path("mlxbatch") unless given.

    UsageError for an unknown profile, preset or key, a value that is not allowed, or a file that is not TOML or not
    readable. A profile for another machine is used, with a note.
    """
    user_dir = user_folder() if user_dir is None else user_dir
    here = this_hardware()
    settings = [layer for path in (user_dir / SETTINGS_FILE, project) if (layer := read_if_there(path))]
    for layer in settings:
        _refuse(layer, _OF_FILES_WITH_A_NAME, 'here write profile = "NAME", or "FILE", for one that has it')
    chosen = profile_choice.choose("profile", name_or_file, settings, user_dir)
    chosen = chosen or profile_choice.for_this_machine(here)
    over = profile_choice.choose("preset", preset, settings, user_dir)
    layers = profile_choice.with_bases(chosen.path, user_dir)
    note, adapted = _elsewhere(merged(layers), here)
    layers += [*adapted, *([_preset(over.path)] if over else [])]
    layers += [*(layer.without("profile", "preset") for layer in settings), from_values(overrides or {})]
    profile, origins = _settled(layers, here)
    sources = tuple(layer.path for layer in layers if layer.path)
    names = {"file": chosen.path.stem, "preset": over.path.stem if over else ""}
    return Loaded(profile, sources, (*chosen.notes, *note), chosen.why, origins=origins, **names)


def available(user_dir: Path | None = None) -> list[str]:
    """Names of all profiles that can be asked for: the package's and the user's, sorted."""
    return sorted(profile_choice.named("profile", user_folder() if user_dir is None else user_dir))


def presets(user_dir: Path | None = None) -> dict[str, str]:
    """Names of all presets that can be asked for, sorted, and their descriptions."""
    found = profile_choice.named("preset", user_folder() if user_dir is None else user_dir)
    return {name: str(read(path).tree.get("description", "")) for name, path in sorted(found.items())}


def user_folder() -> Path:
    """Where the user's settings are; for a user without a home, a place where nothing can be."""
    from platformdirs import user_config_path

    try:
        return user_config_path("mlxbatch")
    except (RuntimeError, OSError, KeyError):
        return Path(os.devnull, "mlxbatch")


def _preset(path: Path) -> Layer:
    layer = read(path)
    _refuse(layer, _OF_PROFILES, "a preset lies over whichever is used")
    return layer.without(*_ABOUT)


def _refuse(layer: Layer, keys: Sequence[str], instead: str) -> None:
    """UsageError for a key that would do nothing there, or call a profile by another's name."""
    for key in keys:
        if key in layer.tree:
            raise UsageError(f"{layer.at(key)}: {key} belongs to a profile; {instead}")


def _elsewhere(tree: Tree, here: Hardware) -> tuple[list[str], list[Layer]]:
    """For a profile that is meant for another machine: a note, and what has to be otherwise here."""
    if profile_choice.fits(tree, here):
        return [], []
    note = f"profile {tree.get('name')} is meant for {profile_choice.meant_for(tree)}; this is {here.words}"
    device = tree.get("device")
    if here.gpu != "none" or not isinstance(device, dict) or device.get("kind") != "gpu":
        return [note], []
    return [f"{note}: it is used with the CPU, in float32"], [from_values(_WITHOUT_GPU, "as there is no GPU here")]


# --- rules and validation --------------------------------------------------------------------------------------------


def _settled(layers: Sequence[Layer], here: Hardware) -> tuple[Profile, dict[str, str]]:
    """The profile that the layers and their fitting rules make, and where each key is set.

    Rules for other machines are judged as well: a mistake shows where it is made.
    """
    from mlxbatch.profile_schema import allowed

    used, others = _ruled(layers, here)
    profile = _validated(used)
    for rule in others:
        _validated([*used, rule])
    known = allowed()
    origins: dict[str, str] = {}
    for layer in used:
        origins |= {key: layer.at(key) for key in keys(layer.tree) if key in known}
    return profile, origins


def _ruled(layers: Sequence[Layer], here: Hardware) -> tuple[list[Layer], list[Layer]]:
    """Each layer with the rules over it that fit this machine; and the other rules."""
    used: list[Layer] = []
    others: list[Layer] = []
    for layer in layers:
        used.append(layer.without(RULES))
        for conditions, rule in layer.rules():
            (used if _holds(_when(conditions, rule), here) else others).append(rule)
    return used, others


def _when(tree: Tree, rule: Layer) -> When:
    from pydantic import ValidationError

    from mlxbatch.profile_schema import When, allowed, conditions

    try:
        return When.model_validate(tree)
    except ValidationError as error:
        layer = Layer(rule.path, rule.text, tree, rule.prefix)
        raise UsageError(_problems(error, [layer], conditions() | allowed())) from error


def _holds(when: When, here: Hardware) -> bool:
    """What is not known of a machine, such as its GPU's cores, fulfils no condition."""
    cores = here.gpu_cores
    return (
        (when.chip is None or is_chip(here.chip, when.chip))
        and (when.memory_from is None or here.memory >= parse_bytes(when.memory_from))
        and (when.memory_below is None or here.memory < parse_bytes(when.memory_below))
        and (when.gpu_cores_from is None or (cores is not None and cores >= when.gpu_cores_from))
        and (when.gpu_cores_below is None or (cores is not None and cores < when.gpu_cores_below))
    )


def _validated(layers: Sequence[Layer]) -> Profile:
    from pydantic import ValidationError

    from mlxbatch.profile_schema import Profile, allowed

    try:
        return Profile.model_validate(merged(layers))
    except ValidationError as error:
        raise UsageError(_problems(error, layers, allowed())) from error


# --- messages --------------------------------------------------------------------------------------------------------


def _problems(error: ValidationError, layers: Sequence[Layer], known: Mapping[str, str]) -> str:
    """The first problem, and how many more there are."""
    # A value that may be of several types is a problem for each of them.
    found = list(dict.fromkeys(_problem(one, layers, known) for one in error.errors()))
    return found[0] + (f" (and {len(found) - 1} more)" if len(found) > 1 else "")


def _problem(found: ErrorDetails, layers: Sequence[Layer], known: Mapping[str, str]) -> str:
    kind, tree, error = found["type"], merged(layers), found.get("ctx", {}).get("error")
    parts = found["loc"] if kind == "extra_forbidden" else _as_known(found["loc"], tree, known)
    key = ".".join(str(part) for part in parts)
    holders = [layer for layer in layers if _get(layer.tree, parts) is not None]
    if not holders:
        return f"{layers[0].at('')}: {key} is missing: must be {known.get(key, 'given')}"
    where = holders[-1].at(key)
    if kind == "extra_forbidden":
        return f"{where}: unknown key {key!r}{_by_option(key) or _nearest(key, known)}"
    if isinstance(error, RuleError):
        return f"{where}: {key} = {_toml(_get(tree, parts))}: {error}"
    allowed = known.get(key) or known.get(key.rpartition(".")[0], "another value")  # of a table of free names
    return f"{where}: {key} = {_toml(_get(tree, parts))}: must be {allowed}"


def _as_known(loc: tuple[int | str, ...], tree: Tree, known: Mapping[str, str]) -> tuple[int | str, ...]:
    """The key that a problem is of: inside a list or a choice of types pydantic names further parts."""
    lengths = range(len(loc), 0, -1)
    length = next((n for n in lengths if ".".join(str(part) for part in loc[:n]) in known), len(loc))
    return loc[: length + isinstance(_get(tree, loc[:length]), dict)]  # in a table of free names, the name


def _by_option(key: str) -> str:
    name = key.rpartition(".")[2].replace("-", "_")
    return f"; it is set by --{name.replace('_', '-')} or MLXBATCH_{name.upper()}" if name in OPTIONS_ALONE else ""


def _nearest(key: str, known: Mapping[str, str]) -> str:
    """A hint at the right key: near in the same table, of the same name in another, or near anywhere."""
    section, _, last = key.rpartition(".")
    names = [*known, *({"profile", "preset"} - {key})]
    here = {name.rpartition(".")[2]: name for name in names if name.rpartition(".")[0] == section}
    elsewhere = {name.rpartition(".")[2]: name for name in names}
    for known_here, likeness in ((here, 0.6), (elsewhere, 0.6), (here, 0.4)):
        if found := near(last, known_here, likeness):
            return f"; did you mean {known_here[found]!r}?"
    return f" (there are: {', '.join(here)})" if here else ""


def _get(tree: Any, loc: tuple[int | str, ...]) -> object:
    for part in loc:
        if isinstance(tree, list) and isinstance(part, int) and part < len(tree):
            tree = tree[part]
        else:
            tree = tree.get(part) if isinstance(tree, dict) else None
    return tree


def _toml(value: object) -> str:
    """A value as it stood in the file, short enough for one line."""
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
    text = f'"{show(value)}"' if isinstance(value, str) else text
    return text if len(text) <= 60 else text[:57] + "..."
