"""A dry run as it is shown: lines for people, JSON lines for programs (docs/inputs.md)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlxbatch.errors import ItemError, show
from mlxbatch.ledger import Decision, Fresh, Infer, Quarantined, Render
from mlxbatch.plan import padding_ratio
from mlxbatch.prediction import Group, Pace
from mlxbatch.types import Item, Planned
from mlxbatch.words import clock, count, minutes, not_taken, size

_VERBS = {Fresh: "skip", Quarantined: "skip", Render: "render", Infer: "transcribe"}


@dataclass(frozen=True, slots=True)
class Preview:
    """What would be done, and what it would take. Bytes, None where that is not known; `pace` None without any run."""

    decisions: Sequence[tuple[Item, Decision]]
    planned: Sequence[Planned]
    problems: Sequence[ItemError]
    not_taken: Mapping[str, int]
    groups: Sequence[Group]
    weights: int | None
    limit: int | None
    pace: Pace | None

    @property
    def seconds(self) -> float:
        return sum(group.seconds for group in self.groups)

    @property
    def padded(self) -> float:
        return sum(group.padded for group in self.groups)

    @property
    def largest(self) -> Group | None:
        """The group that takes the most memory, where that is known."""
        known = [group for group in self.groups if group.memory is not None]
        return max(known, key=lambda group: group.memory or 0, default=None)

    @property
    def takes(self) -> float | None:
        """Seconds at the pace of earlier runs."""
        return self.seconds / self.pace.rtfx if self.pace else None

    @property
    def verbs(self) -> Counter[str]:
        """How many there are of each; what would fail before it is transcribed counts as that alone."""
        found = Counter(_VERBS[type(decision)] for _, decision in self.decisions)
        found["transcribe"] = len(self.planned)
        return found


def print_text(preview: Preview) -> None:
    for item, decision in preview.decisions:
        print(f"{_VERBS[type(decision)]:<10}  {show(item.source)}  ({decision.why})")
    for group in preview.groups:
        print(_group_line(group))
    for problem in preview.problems:
        print(f"would fail: {problem}")
    if left_out := not_taken(preview.not_taken):
        print(f"not taken: {left_out}")
    if preview.planned:
        print(f"memory: {_memory_text(preview)}")
        print(f"time: {_time_text(preview)}")
    verbs = preview.verbs
    audio = f"{minutes(preview.seconds)} of audio, {minutes(preview.padded)} padded"
    fail = f", {len(preview.problems)} would fail" if preview.problems else ""
    print(f"{verbs['transcribe']} to transcribe ({audio}), {verbs['render']} to render, {verbs['skip']} to skip{fail}")


def _group_line(group: Group) -> str:
    span = f"{clock(min(group.lengths))} to {clock(max(group.lengths))}"
    memory = "" if group.memory is None else f", {size(group.memory)}"
    return f"group {group.number}: {count(len(group.lengths), 'file')}, {span}, {minutes(group.padded)} padded{memory}"


def _memory_text(preview: Preview) -> str:
    largest = preview.largest
    if largest is None or preview.weights is None:
        return "unknown before the model is there; groups by batch size alone, memory may make them smaller"
    needed = f"{size(largest.memory or 0)} at most, in group {largest.number} ({size(preview.weights)} of it weights)"
    if preview.limit is None:
        return f"{needed}; the limit is known once the device is asked, and may make groups smaller"
    return f"{needed}, of a limit of {size(preview.limit)}"


def _time_text(preview: Preview) -> str:
    if preview.pace is None or preview.takes is None:
        return "unknown before a first run of this model with these settings, on this machine, into this output"
    earlier = count(preview.pace.runs, "earlier run")
    return f"about {clock(preview.takes)} (RTFx {preview.pace.rtfx:.1f} in {earlier} like this)"


def print_json(preview: Preview) -> None:
    for record in _records(preview):
        print(json.dumps(record))


def _records(preview: Preview) -> Iterator[dict[str, Any]]:
    group_of = {one.probed.item.id: one for one in preview.planned}
    for item, decision in preview.decisions:
        record: dict[str, Any] = {"event": "would", "source": show(item.source)}
        record |= {"do": _VERBS[type(decision)], "why": decision.why}
        if one := group_of.get(item.id):
            record |= {"group": one.group + 1, "seconds": one.probed.seconds}
        yield record
    for problem in preview.problems:
        failure = {"source": show(problem.path), "stage": problem.stage, "error": show(problem.cause)}
        yield {"event": "would fail", **failure}
    for group in preview.groups:
        yield {
            "event": "group",
            "group": group.number,
            "items": len(group.lengths),
            "shortest": min(group.lengths),
            "longest": max(group.lengths),
            "seconds": group.seconds,
            "padded_seconds": group.padded,
            "memory_bytes": group.memory,
        }
    yield {"event": "plan", **_plan_facts(preview)}


def _plan_facts(preview: Preview) -> dict[str, Any]:
    verbs, largest, pace = preview.verbs, preview.largest, preview.pace
    return {
        **{verb: verbs[verb] for verb in ("transcribe", "render", "skip")},
        "would_fail": len(preview.problems),
        "not_taken": dict(preview.not_taken),
        "items": len(preview.planned),
        "groups": len(preview.groups),
        "seconds": preview.seconds,
        "padded_seconds": preview.padded,
        "padding_ratio": padding_ratio(preview.planned),
        "weights_bytes": preview.weights,
        "memory_bytes": largest.memory if largest else None,
        "limit_bytes": preview.limit,
        "predicted_seconds": preview.takes,
        "rtfx": pace.rtfx if pace else None,
        "runs": pace.runs if pace else 0,
    }
