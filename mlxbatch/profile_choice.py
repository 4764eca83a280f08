"""Which hardware profile and which preset a run has: by name, by file, or the nearest for this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from mlxbatch.errors import UsageError, show
from mlxbatch.hardware import Hardware, is_chip
from mlxbatch.profile_layers import Layer, merged, read
from mlxbatch.words import nearest

Kind = Literal["profile", "preset"]
FALLBACK = "linux-cpu"
_MEANT_FOR = ("platform", "machine", "gpu", "chip")


@dataclass(frozen=True, slots=True)
class Choice:
    """A file of settings, and what chose it: an option, a settings file and its line, or the machine."""

    path: Path
    why: str
    notes: tuple[str, ...] = ()


def choose(kind: Kind, wanted: str | None, settings: Sequence[Layer], user_dir: Path) -> Choice | None:
    """By the option, else by the settings file of the highest precedence that names one; None where nothing does."""
    if wanted is not None:
        return Choice(_find(kind, wanted, Path(), user_dir, f"--{kind}"), f"--{kind}")
    for layer in reversed(settings):
        if kind in layer.tree and layer.path:
            name, where = layer.tree[kind], layer.at(kind)
            if not isinstance(name, str):
                raise UsageError(f"{where}: {kind} = {name!r}: must be a {kind}'s name or file")
            return Choice(_find(kind, name, layer.path.parent, user_dir, where), where)
    return None


def for_this_machine(here: Hardware) -> Choice:
    """The package's own profile that fits: of several the one that is meant for the fewest machines."""
    found = []
    for path in sorted(package_profiles().glob("*.toml")):
        tree = merged(with_bases(path, Path()))
        if fits(tree, here):
            found.append((-sum(tree.get(key, "any") != "any" for key in _MEANT_FOR), path))
    if found:
        return Choice(min(found)[1], here.words)
    fallback = package_profiles() / f"{FALLBACK}.toml"
    return Choice(fallback, here.words, (f"no profile for {here.words}: {FALLBACK} is used",))


def fits(tree: Mapping[str, Any], here: Hardware) -> bool:
    """Whether a profile is meant for a machine like this one."""
    own = {"platform": here.platform, "machine": here.machine, "gpu": here.gpu}
    alike = all(tree.get(key, "any") in (value, "any") for key, value in own.items())
    chip = tree.get("chip", "any")
    return alike and (chip == "any" or is_chip(here.chip, str(chip)))


def meant_for(tree: Mapping[str, Any]) -> str:
    """The machines of a profile, in words: "darwin on arm64, Apple M4"."""
    parts = [f"{tree.get('platform', 'any')} on {tree.get('machine', 'any')}"]
    parts += [str(tree["chip"])] if tree.get("chip", "any") != "any" else []
    gpu = tree.get("gpu", "any")
    parts += {"any": [], "none": ["without a GPU"], "cuda": ["CUDA"]}.get(gpu, [str(gpu)])
    return ", ".join(parts)


def with_bases(path: Path, user_dir: Path) -> list[Layer]:
    """A profile and those it is built on, the lowest first. UsageError where they go round in a circle."""
    layers = [read(path)]
    while "base" in layers[0].tree:
        layer = layers[0]
        base, where = layer.tree["base"], layer.at("base")
        if not isinstance(base, str):
            raise UsageError(f"{where}: base = {base!r}: must be a profile's name or file")
        below = _find("profile", base, path.parent, user_dir, where)
        if any(below == other.path for other in layers):
            raise UsageError(f"{where}: base = '{show(base)}': this profile is built on itself")
        layers.insert(0, read(below))
    return layers


def named(kind: Kind, user_dir: Path) -> dict[str, Path]:
    """Name -> file; one of the user's stands before the package's of the same name."""
    folders = [package_profiles(), user_dir / "profiles"]
    if kind == "preset":
        folders = [folder / "presets" for folder in folders]
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.toml"))}


def package_profiles() -> Path:
    """The folder of the profiles that come with the package: in the wheel, or at the root of a source checkout."""
    package = Path(str(resources.files("mlxbatch")))
    installed = package / "profiles"
    return installed if installed.is_dir() else package.parent / "profiles"


def _find(kind: Kind, wanted: str, base: Path, user_dir: Path, where: str) -> Path:
    if wanted.endswith(".toml") or "/" in wanted:
        path = base / Path(wanted).expanduser()
        if not path.is_file():
            raise UsageError(f"{where}: no such {kind} file: {show(path)}")
        return path
    known = named(kind, user_dir)
    if wanted not in known:
        hint = f"{nearest(wanted, known)} (there are: {', '.join(sorted(known))})"
        raise UsageError(f"{where}: unknown {kind} {wanted!r}{hint}")
    return known[wanted]
