"""Which layers a recipe means: rules over the paths of layers, of which the first that matches decides. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from mlxbatch.errors import UsageError, show
from mlxbatch.words import nearest

ALL = "*"
# Weights that can share a scale.
GROUPS = (32, 64, 128)


@dataclass(frozen=True, slots=True)
class Rule:
    """What becomes of the layers whose path matches `pattern`: so many `bits`, None that they stay full.

    The pattern is the shell's ("encoder.*", where a star also stands for dots), or between slashes a regular
    expression for the whole path ("/encoder\\.blocks\\.[0-3]\\..*/"). `group_size`: None takes that of the model.
    `where` says who set it, for messages: "mine.toml:7".
    """

    pattern: str
    bits: int | None
    group_size: int | None = None
    where: str = ""

    def matches(self, layer: str) -> bool:
        expression = regular_expression(self.pattern)
        return fnmatchcase(layer, self.pattern) if expression is None else expression.fullmatch(layer) is not None


# As audio models call the part that hears, wherever in a path that stands: encoder, audio_tower, speech_encoder.
_ENCODER = r"/(?:.+\.)?(?:\w*encoder|audio_tower)\..+/"

# Decoders bear coarse weights better than encoders do, whose errors reach every token.
NAMED: dict[str, tuple[Rule, ...]] = {
    "uniform": (),
    "encoder8-decoder4": (
        Rule(_ENCODER, 8, where="recipe encoder8-decoder4"),
        Rule(ALL, 4, where="recipe encoder8-decoder4"),
    ),
}


def regular_expression(pattern: str) -> re.Pattern[str] | None:
    """That of a pattern between slashes; None of any other. ValueError where it is none that Python knows."""
    if not (len(pattern) > 2 and pattern.startswith("/") and pattern.endswith("/")):
        return None
    try:
        return re.compile(pattern[1:-1])
    except re.error as error:
        raise ValueError(f"{pattern} is no regular expression: {error}") from error


def rule_for(layer: str, rules: Iterable[Rule]) -> Rule | None:
    """The first rule that matches a layer; None where none does."""
    return next((rule for rule in rules if rule.matches(layer)), None)


def refuse_idle(rules: Sequence[Rule], layers: Iterable[str]) -> None:
    """UsageError for a rule that matches no layer: a mistake in it would go unseen."""
    known = sorted(layers)
    for rule in rules:
        if not any(rule.matches(layer) for layer in known):
            where = f"{rule.where}: " if rule.where else ""
            what = f"no layer of this model is called {show(rule.pattern)!r}"
            if rule.pattern == _ENCODER:
                what = "this model has no encoder whose layers can be quantized"
                raise UsageError(f"{where}{what}; take --bits, or a recipe of your own")
            raise UsageError(f"{where}{what}{nearest(rule.pattern, known)}")
