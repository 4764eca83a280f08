"""Memory that grew, or is more than it was in earlier runs: a "leak" event of a run's log as a sentence. Pure.

What is missing of an event is left out of its sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlxbatch.words import count, size

_GREW = {"active": "memory on the device", "rss": "memory of the engine's process", "parent_rss": "memory of the run"}
_HELD = {"active": "the device", "rss": "the engine's process"}


def leak_line(facts: Mapping[str, Any]) -> str:
    """ "memory on the device keeps growing: 41 MB more in 67 groups, 612 kB a group; 30 MB are allowed"."""
    match facts.get("what"):
        case "baseline":
            return _over_baseline(str(facts.get("of")), facts.get("size"), facts.get("baseline"))
        case "peak":  # older logs
            return _over_baseline("peak", facts.get("peak"), facts.get("baseline"))
    return _growth(facts)


def _over_baseline(of: str, number: float | None, baseline: float | None) -> str:
    if of == "peak":
        text, before = "memory on the device came to", "earlier runs took"
    else:
        text, before = f"{_HELD.get(of, 'memory')} held", "earlier runs held"
    after = " after a group" if of != "peak" else ""
    if number is None or baseline is None:
        return f"{text} more{after} than {before}"
    return f"{text} {_amount(number)}{after} where {before} {_amount(baseline)}"


def _growth(facts: Mapping[str, Any]) -> str:
    text = f"{_GREW.get(str(facts.get('what')), 'memory')} keeps growing"
    growth, groups, each, bound = (facts.get(name) for name in ("growth", "groups", "per_group", "bound"))
    text += f": {_amount(growth)} more" if growth is not None else ""
    text += f" in {count(round(groups), 'group')}" if groups is not None else ""
    text += f", {_amount(each)} a group" if each is not None else ""
    return text + (f"; {_amount(bound)} are allowed" if bound is not None else "")


def _amount(number: float) -> str:
    """Bytes, down to what a small leak adds to each group."""
    return size(round(number)) if number >= 1e6 else f"{number / 1e3:.0f} kB"
