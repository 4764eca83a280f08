"""A recipe of one's own, in TOML: which layers are kept in how many bits. Strict, as profiles are.

Imported only where there is one, because pydantic takes its time.

bits = 4                                  # of the layers that no pattern names; without it --bits
group_size = 64

[layers]                                  # the first pattern that matches decides
"encoder.*" = 8
"decoder.token_embedding" = { bits = 6, group_size = 32 }
"decoder.blocks.*.cross_attn.*" = false   # stays full
'/decoder\\.blocks\\.[0-3]\\..+/' = 6         # between slashes: a regular expression
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, PlainValidator, ValidationError

from mlxbatch.convert.layer_rules import GROUPS, Rule, regular_expression
from mlxbatch.errors import UsageError, show
from mlxbatch.models.architecture import BITS
from mlxbatch.profile_layers import Layer, read
from mlxbatch.profile_schema import Section
from mlxbatch.words import nearest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_OF_A_LAYER = "2, 3, 4, 5, 6 or 8, false (it stays full), or { bits = 6, group_size = 32 }"


def _of_a_layer(value: object) -> tuple[int | None, int | None]:
    """Bits and group of a layer; not as a union of types, each of which would have an error of its own."""
    if value is False:
        return None, None
    settings = value if isinstance(value, Mapping) else {"bits": value}
    bits, group = settings.get("bits"), settings.get("group_size")
    if type(bits) is not int or bits not in BITS or group not in (None, *GROUPS) or not set(settings) <= _KEYS:
        raise ValueError(f"not what a layer may have: {value!r}")
    return bits, group


_KEYS = frozenset({"bits", "group_size"})


class RecipeFile(Section):
    """What a recipe's file may hold."""

    bits: Literal[2, 3, 4, 5, 6, 8] | None = Field(default=None, description="2, 3, 4, 5, 6 or 8")
    group_size: Literal[32, 64, 128] | None = Field(default=None, description="32, 64 or 128")
    layers: dict[str, Annotated[tuple[int | None, int | None], PlainValidator(_of_a_layer)]] = Field(
        min_length=1, description="a table of patterns, [layers]"
    )


def read_recipe(path: Path) -> tuple[tuple[Rule, ...], int | None, int | None]:
    """The rules in their order, and bits and group of all other layers where the file says them.

    UsageError, with file and line, for what cannot be read or is not allowed.
    """
    layer = read(path)
    try:
        recipe = RecipeFile.model_validate(layer.tree)
    except ValidationError as error:
        raise UsageError(_problem(error.errors()[0], layer)) from error
    rules = (_rule(pattern, *form, layer) for pattern, form in recipe.layers.items())
    return tuple(rules), recipe.bits, recipe.group_size


def _rule(pattern: str, bits: int | None, group_size: int | None, layer: Layer) -> Rule:
    where = layer.at(f"layers.{pattern}")
    try:
        regular_expression(pattern)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from error
    return Rule(pattern, bits, group_size, where)


def _problem(found: ErrorDetails, layer: Layer) -> str:
    """What is wrong, on one line: pydantic's first error in words of our own."""
    names = [str(part) for part in found["loc"]]
    where = layer.at(".".join(names[:2] if names[0] == "layers" else names[:1]))
    if found["type"] == "extra_forbidden":
        return f"{where}: unknown key {show(names[0])!r}{nearest(names[0], RecipeFile.model_fields)}"
    if found["type"] == "missing":
        return f"{show(layer.path or '')}: {names[0]} is missing: must be {_allowed(names)}"
    key = f'layers."{show(names[1])}"' if len(names) > 1 and names[0] == "layers" else names[0]
    return f"{where}: {key} = {_toml(found['input'])}: must be {_allowed(names)}"


def _allowed(names: list[str]) -> str:
    if names[0] == "layers" and len(names) > 1:
        return _OF_A_LAYER
    return RecipeFile.model_fields[names[0]].description or ""


def _toml(value: Any) -> str:
    """A value as it stood in the file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{show(key)} = {_toml(one)}" for key, one in value.items()) + " }" if value else "{}"
    return f'"{show(value)}"' if isinstance(value, str) else str(value)
