"""The conditions of `--fail-if`: a small language over a run's figures, `failed>1% or rtfx<5`. Pure.

    condition  = all { "or" all }
    all        = one { "and" one }
    one        = "not" one | "(" condition ")" | name [ operator value ]
    operator   = "<" | "<=" | ">" | ">=" | "==" | "=" | "!="
    value      = number [ unit ]

A name alone is true where its figure is over 0. A figure that is not known of a run, such as rtfx where there was
nothing to do, makes its comparison neither true nor false (Kleene's logic): the condition is met only if it would be
whatever that figure were.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from mlxbatch.budget import parse_bytes
from mlxbatch.errors import UsageError, show
from mlxbatch.report.names import NAMES, whole_of
from mlxbatch.words import nearest

_WORDS = ("and", "or", "not")
_TIMES = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
_EXAMPLES = {"bytes": "4GB", "seconds": "30s", "share": "20%", "ratio": "5", "count": "10"}
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
}
_VALUE = r"\d+(?:\.\d+)?(?:\s*(?:%|(?!(?:and|or|not)\b)[A-Za-z]+\b))?"
_TOKEN = re.compile(rf"\s*(?:({_VALUE})|([A-Za-z_]\w*)|([<>]=?|[=!]=|=|[()]))", re.ASCII | re.IGNORECASE)
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*(\S*)")
_DEEPEST = 50

# Of each name, the run's figure.
Values = Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`name operator value`; `of`: the value is a share of this count."""

    source: str
    name: str
    compare: str
    value: float
    of: str = ""

    def holds(self, values: Values) -> bool | None:
        found, whole = values.get(self.name), values.get(self.of) if self.of else 1.0
        if found is None or whole is None:
            return None
        return _COMPARE[self.compare](found, self.value * whole)

    def deciding(self, values: Values) -> Iterator[Comparison]:
        yield self

    def names(self) -> Iterator[str]:
        yield self.name


@dataclass(frozen=True, slots=True)
class Not:
    part: Condition

    def holds(self, values: Values) -> bool | None:
        found = self.part.holds(values)
        return None if found is None else not found

    def deciding(self, values: Values) -> Iterator[Comparison]:
        yield from self.part.deciding(values)

    def names(self) -> Iterator[str]:
        yield from self.part.names()


@dataclass(frozen=True, slots=True)
class Joined:
    """Parts joined by "and", or by "or"."""

    word: str
    parts: tuple[Condition, ...]

    def holds(self, values: Values) -> bool | None:
        found = [part.holds(values) for part in self.parts]
        decisive = self.word == "or"
        if decisive in found:
            return decisive
        return None if None in found else not decisive

    def deciding(self, values: Values) -> Iterator[Comparison]:
        """Those that make it what it is: of "or" the parts that are true, if any is."""
        whole = self.holds(values)
        for part in self.parts:
            if part.holds(values) == whole:
                yield from part.deciding(values)

    def names(self) -> Iterator[str]:
        for part in self.parts:
            yield from part.names()


Condition = Comparison | Not | Joined


def unknown(condition: Condition, values: Values) -> list[str]:
    """The names in a condition whose figure is not known, each once."""
    return list(dict.fromkeys(name for name in condition.names() if values.get(name) is None))


def parse(text: str) -> Condition:
    """The condition that a text says; UsageError tells what is wrong at which character."""
    return _Parser(text).condition()


def _example(name: str) -> str:
    """A value as it may be written for a name."""
    return _EXAMPLES[NAMES[name].kind] + (" or 1%" if NAMES[name].part else "")


@dataclass(frozen=True, slots=True)
class _Token:
    kind: Literal["number", "name", "sign", "end"]
    text: str
    at: int


class _Parser:
    """Recursive descent, one method a rule of the grammar above."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._scan())
        self._place = self._depth = 0

    def condition(self) -> Condition:
        found = self._either()
        if self._next.kind != "end":
            raise self._wrong(self._next, "'and', 'or' or the end was expected")
        return found

    def _scan(self) -> Iterator[_Token]:
        at = 0
        while self._text[at:].strip():
            match = _TOKEN.match(self._text, at)
            if match is None:
                at += len(self._text[at:]) - len(self._text[at:].lstrip())
                raise self._wrong(_Token("sign", self._text[at], at), "it has no meaning here")
            number, name, sign = match.groups()
            found = number or name or sign
            yield _Token("number" if number else "name" if name else "sign", found, match.end() - len(found))
            at = match.end()
        yield _Token("end", "", len(self._text))

    @property
    def _next(self) -> _Token:
        return self._tokens[self._place]

    def _take(self) -> _Token:
        token = self._next
        self._place += token.kind != "end"
        return token

    def _word(self, word: str) -> bool:
        """Take the next token if it is this word."""
        found = self._next.text.lower() == word
        self._place += found
        return found

    def _either(self) -> Condition:
        return self._joined("or", self._all)

    def _all(self) -> Condition:
        return self._joined("and", self._one)

    def _joined(self, word: str, part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self._word(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Joined(word, tuple(parts))

    def _one(self) -> Condition:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._wrong(self._next, f"more than {_DEEPEST} parts within each other")
        try:
            if self._word("not"):
                return Not(self._one())
            return self._bracketed() if self._word("(") else self._comparison()
        finally:
            self._depth -= 1

    def _bracketed(self) -> Condition:
        found = self._either()
        if not self._word(")"):
            raise self._wrong(self._next, "')' was expected")
        return found

    def _comparison(self) -> Comparison:
        token = self._take()
        name = token.text.lower()
        if token.kind != "name" or name in _WORDS:
            raise self._wrong(token, "a name was expected, such as failed or rtfx")
        if name not in NAMES:
            raise self._wrong(token, f"no such name{nearest(name, NAMES)} (there are: {', '.join(NAMES)})")
        if self._next.text not in _COMPARE:
            return Comparison(token.text, name, ">", 0.0)
        compare, value = self._take(), self._take()
        if value.kind != "number":
            raise self._wrong(value, f"a value was expected, such as {_example(name)}")
        number, percent = self._value(name, value)
        of = whole_of(name) if percent else ""
        return Comparison(self._text[token.at : value.at + len(value.text)], name, compare.text, number, of)

    def _value(self, name: str, token: _Token) -> tuple[float, bool]:
        """A value in its name's own unit, and whether it is a share of files."""
        match = _NUMBER.fullmatch(token.text)
        assert match is not None
        number, unit, kind = float(match[1]), match[2], NAMES[name].kind
        if unit == "%" and (kind == "share" or NAMES[name].part):
            return number / 100, kind == "count"
        if kind == "seconds" and unit.lower() in _TIMES:
            return number * _TIMES[unit.lower()], False
        if kind == "bytes" and unit and number:
            return self._bytes(token), False
        # Bytes by the handful are no one's limit: a bare 4 is a forgotten "GB".
        if unit or (kind == "bytes" and number):
            raise self._wrong(token, f"not a value for it; write it as {_example(name)}")
        return number, False

    def _bytes(self, token: _Token) -> float:
        try:
            return float(parse_bytes(token.text))
        except UsageError as error:
            raise self._wrong(token, str(error)) from error

    def _wrong(self, token: _Token, what: str) -> UsageError:
        where = f"at character {token.at + 1}, {show(token.text)!r}" if token.text else "at its end"
        return UsageError(f"--fail-if {show(self._text)!r}: {where}: {what}")
