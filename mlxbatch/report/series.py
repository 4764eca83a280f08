"""Readings over time, ready to be drawn: few enough points, a unit of time, the governor's steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mlxbatch.report.log import Facts, number, text

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Unit:
    """What a time axis counts in."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Stretch:
    """A step of the governor from when it was taken to the next, in seconds of the run."""

    step: str
    begin: float
    end: float


def unit_of(seconds: float) -> Unit:
    """Hours for more than three, minutes for more than three, else seconds."""
    if seconds > 3 * 3600:
        return Unit("hours", 3600.0)
    return Unit("minutes", 60.0) if seconds > 180 else Unit("seconds", 1.0)


def readings(samples: Sequence[Facts], name: str, scale: float = 1.0) -> list[Point]:
    """(seconds, value x scale) of each sample that has both."""
    found = ((number(sample, "t"), number(sample, name)) for sample in samples)
    return [(at, value * scale) for at, value in found if at is not None and value is not None]


def thinned(points: Sequence[Point], pick: Callable[[Sequence[float]], float], most: int) -> list[Point]:
    """At most `most` points: each stands for its neighbours with what `pick` makes of them, such as max or mean."""
    width = -(-len(points) // most)
    if width <= 1:
        return list(points)
    blocks = [points[place : place + width] for place in range(0, len(points), width)]
    return [(block[0][0], pick([value for _, value in block])) for block in blocks]


def stretches(governor: Sequence[Facts], seconds: float) -> list[Stretch]:
    """The governor's steps as they followed each other; "open" is the time between them."""
    taken = sorted((number(step, "t") or 0.0, text(step, "step")) for step in governor)
    found = [Stretch(step, at, max(at, end)) for (at, step), (end, _) in pairwise([*taken, (seconds, "")])]
    return [stretch for stretch in found if stretch.step and stretch.step != "open"]
