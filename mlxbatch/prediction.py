"""What a plan will take before it is run: memory by the engine's footprint, time by earlier runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlxbatch import budget, plan
from mlxbatch.engines.base import Footprint
from mlxbatch.errors import UsageError
from mlxbatch.history import RunRow
from mlxbatch.metrics import rtfx
from mlxbatch.types import Planned

# What a run was begun with that its speed depends on: keys of its facts.
CONDITIONS = ("host", "sha", "profile", "dtype", "batch_size", "channels", "vad", "words", "encoder_context")
# The latest runs alone: the machine may have changed since.
_RUNS = 10


@dataclass(frozen=True, slots=True)
class Group:
    """A plan's group: seconds of each recording, and its rows; `padded` with each row as long as the longest.

    `memory` is the bytes that it takes, the weights and the work at hand with them, None where the engine cannot tell.
    """

    number: int
    lengths: tuple[float, ...]
    rows: tuple[int, ...]
    memory: int | None

    @property
    def seconds(self) -> float:
        return sum(self.lengths)

    @property
    def padded(self) -> float:
        return max(self.lengths) * sum(self.rows)


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast earlier runs were: RTFx, over so many of them."""

    rtfx: float
    runs: int


def groups(planned: Sequence[Planned], footprint: Footprint | None) -> list[Group]:
    """A plan's groups, the first being number 1."""
    found = []
    for number, members in enumerate(plan.grouped(planned), 1):
        lengths = tuple(one.probed.seconds for one in members)
        needs = [one.rows * footprint.need(one.probed.seconds) for one in members] if footprint else []
        memory = footprint.group(needs, max(lengths)) if footprint else None
        found.append(Group(number, lengths, tuple(one.rows for one in members), memory))
    return found


def pace(runs: Sequence[RunRow], wanted: Mapping[str, Any]) -> Pace | None:
    """By the latest runs under the same CONDITIONS in which audio was worked on; None where there is none.

    Loading counts in: what is told is audio seconds per second of a whole run.
    """
    alike = [run.outcome for run in runs if run.outcome and all(run.facts.get(k) == wanted[k] for k in CONDITIONS)]
    told = [(one.get("audio_seconds") or 0.0, one.get("wall_seconds") or 0.0) for one in alike]
    told = [(audio, wall) for audio, wall in told if rtfx(audio, wall)][-_RUNS:]
    speed = rtfx(sum(audio for audio, _ in told), sum(wall for _, wall in told))
    return Pace(speed, len(told)) if speed else None


def memory_limit(kind: str, value: str) -> int | None:
    """Bytes of the profile's limit; None for a share of what a GPU advises, which only the engine's process can ask."""
    if kind == "cpu":
        return budget.memory_limit(value, budget.machine_memory())
    try:
        return budget.parse_bytes(value)
    except UsageError:
        return None
