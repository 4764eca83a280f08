"""MLXBATCH_* variables: a misspelt one would be passed over without a word, at night above all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mlxbatch.errors import UsageError, show
from mlxbatch.models.cache import ENVIRONMENT as CACHE
from mlxbatch.words import near

PREFIX = "MLXBATCH_"


def check_variables(program: Any, environment: Iterable[str]) -> None:
    """UsageError for a variable that none of the program's commands knows and that is nearly one they do.

    Others that begin with the prefix are somebody's own business. `program` is the command line's root.
    """
    known = {name.removeprefix(PREFIX) for name in (CACHE, *_variables(program))}
    for name in sorted(environment):
        rest = name.removeprefix(PREFIX)
        if rest != name and rest not in known and (meant := near(rest, known, 0.75)):
            raise UsageError(f"unknown variable {show(name)} in the environment; did you mean {PREFIX + meant!r}?")


def _variables(command: Any) -> Iterator[str]:
    for option in command.params:
        names = option.envvar or ()
        yield from (names,) if isinstance(names, str) else names
    for child in getattr(command, "commands", {}).values():
        yield from _variables(child)
