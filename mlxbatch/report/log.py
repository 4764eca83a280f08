"""One run's log (`mlxbatch.runlog`), read into what a report asks of it.

Older versions wrote fewer events and fewer keys, and a kill may tear the last line: what is missing or unreadable is
passed over, and the rest is taken.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlxbatch.errors import SetupError, show
from mlxbatch.types import Span

Facts = Mapping[str, Any]
# JSON has no bounds, a double has: beyond this nothing was measured.
_LARGEST = 1e300
_ONCE = ("start", "end")
_MANY = ("plan", "item", "sample", "governor", "load", "child", "leak")


@dataclass(slots=True)
class Log:
    """A log's events by kind, each as it was written; `seconds` is the time of the last one since the run began.

    `spans` are on the run's clock, without the stage "features", which lasts until its window is taken. `unreadable`
    counts lines that are no events.
    """

    once: dict[str, Facts] = field(default_factory=lambda: {kind: {} for kind in _ONCE})
    many: dict[str, list[Facts]] = field(default_factory=lambda: {kind: [] for kind in _MANY})
    spans: list[Span] = field(default_factory=list)
    seconds: float = 0.0
    unreadable: int = 0

    @property
    def start(self) -> Facts:
        return self.once["start"]

    @property
    def plans(self) -> list[Facts]:
        """More than one where another model took over: each is of what was left then."""
        return self.many["plan"]

    @property
    def end(self) -> Facts:
        return self.once["end"]

    @property
    def items(self) -> list[Facts]:
        return self.many["item"]

    @property
    def samples(self) -> list[Facts]:
        return self.many["sample"]

    @property
    def governor(self) -> list[Facts]:
        return self.many["governor"]

    @property
    def loads(self) -> list[Facts]:
        return self.many["load"]

    @property
    def children(self) -> list[Facts]:
        return self.many["child"]

    @property
    def leaks(self) -> list[Facts]:
        return self.many["leak"]

    def add(self, entry: Facts) -> None:
        """Take one event; kinds that this version does not know are passed over."""
        kind = entry.get("event")
        self.seconds = max(self.seconds, number(entry, "t") or 0.0)
        if kind in _ONCE:
            self.once[kind] = entry
        elif kind in _MANY:
            self.many[kind].append(entry)
        elif kind == "span":
            self._span(entry)

    def _span(self, entry: Facts) -> None:
        begin, end, stage = number(entry, "begin"), number(entry, "end"), entry.get("stage")
        if begin is not None and end is not None and isinstance(stage, str) and stage != "features":
            self.spans.append(Span(stage, begin, end, int(number(entry, "rows") or 0)))


def read_log(path: Path) -> Log | None:
    """The log at a path; None where there is none (any more). SetupError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return parse_log(file)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SetupError(f"cannot read {show(path)}: {error.strerror or error}") from error


def parse_log(lines: Iterable[bytes]) -> Log:
    """A log of its lines."""
    log = Log()
    for line in lines:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if isinstance(entry, dict) and isinstance(entry.get("event"), str):
            log.add(entry)
        elif line.strip():
            log.unreadable += 1
    return log


def number(facts: Facts, *names: str) -> float | None:
    """The number at the end of a path of names; None where there is none, or what is there is no number.

    >>> number({"window_latency_seconds": {"p95": 2.5}}, "window_latency_seconds", "p95")
    2.5
    """
    found: Any = facts
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    if not isinstance(found, int | float) or isinstance(found, bool) or abs(found) > _LARGEST or found != found:
        return None
    return float(found)


def text(facts: Facts, name: str) -> str:
    """The text of a name, fit to be printed; "" where there is none."""
    found = facts.get(name)
    return show(found) if isinstance(found, str) else ""
