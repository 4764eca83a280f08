"""The files that settings come from, each a layer: read, with the [[when]] rules that fit the machine over it."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlxbatch.errors import UsageError, show
from mlxbatch.toml_lines import line_of

Tree = dict[str, Any]
RULES = "when"


@dataclass(frozen=True, slots=True)
class Layer:
    """One source of settings. Without a file it is what was given as options or variables, or what `name` says.

    `prefix` is a rule's own: "when[0].".
    """

    path: Path | None
    text: str = ""
    tree: Tree = field(default_factory=dict)
    prefix: str = ""
    name: str = ""

    def at(self, key: str) -> str:
        """Where the key is set: "file:line", the file alone where the line cannot be found; or the option's names."""
        if self.path is None:
            last = key.rpartition(".")[2]
            return self.name or f"--{last.replace('_', '-')} or MLXBATCH_{last.upper()}"
        line = line_of(self.prefix + key, self.text)
        return f"{show(self.path)}:{line}" if line else show(self.path)

    def without(self, *keys: str) -> Layer:
        kept = {key: value for key, value in self.tree.items() if key not in keys}
        return Layer(self.path, self.text, kept, self.prefix, self.name)

    def rules(self) -> list[tuple[Tree, Layer]]:
        """Each [[when]]: its conditions, and what it sets. UsageError where it is no list of tables."""
        found = self.tree.get(RULES, [])
        if not (isinstance(found, list) and all(isinstance(rule, dict) for rule in found)):
            raise UsageError(f"{self.at(RULES)}: {RULES} is to be a list of tables, each begun by [[{RULES}]]")
        return [self._rule(number, rule) for number, rule in enumerate(found)]

    def _rule(self, number: int, rule: Tree) -> tuple[Tree, Layer]:
        sections = {key: value for key, value in rule.items() if isinstance(value, dict)}
        conditions = {key: value for key, value in rule.items() if key not in sections}
        return conditions, Layer(self.path, self.text, sections, f"{RULES}[{number}].")


def read(path: Path) -> Layer:
    """A TOML file. UsageError with its name, and the line where there is one, for what cannot be read."""
    try:
        # utf-8-sig: Windows editors put a byte order mark first, which TOML does not allow.
        text = path.read_bytes().decode("utf-8-sig")
        return Layer(path, text, tomllib.loads(text))
    except OSError as error:
        raise UsageError(f"cannot read {show(path)}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{show(path)}: not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        number = line[1] if line else str(max(1, len(text.splitlines())))
        raise UsageError(f"{show(path)}:{number}: not valid TOML: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{show(path)}: not valid TOML: nested too deeply") from error


def read_if_there(path: Path) -> Layer | None:
    """A settings file may be missing, but one that is there and cannot be read is not passed over."""
    return read(path) if os.path.lexists(path) else None


def from_values(values: Mapping[str, object], name: str = "") -> Layer:
    """A layer of dotted keys: {"transcribe.batch_size": 4}; None values are left out."""
    tree: Tree = {}
    for dotted, value in values.items():
        if value is not None:
            *sections, key = dotted.split(".")
            node = tree
            for section in sections:
                node = node.setdefault(section, {})
            node[key] = value
    return Layer(None, "", tree, name=name)


def merged(layers: Iterable[Layer]) -> Tree:
    """All layers' settings, later ones over earlier ones, table by table."""
    tree: Tree = {}
    for layer in layers:
        tree = _over(tree, layer.tree)
    return tree


def _over(low: Tree, high: Tree) -> Tree:
    result = dict(low)
    for key, value in high.items():
        below = result.get(key)
        result[key] = _over(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def keys(tree: Tree, above: str = "") -> Iterator[str]:
    """The dotted keys of all values in a tree."""
    for key, value in tree.items():
        yield from keys(value, f"{above}{key}.") if isinstance(value, dict) else (f"{above}{key}",)
