"""Bits for each group of layers by what each width costs there, until a size or a loss is met. Pure.

Divergences of groups that are quantized alone are taken to add up, as those of small independent disturbances do. Then
the best use of bytes is Lagrangian (Everett 1963, "Generalized Lagrange multiplier method"; Shoham and Gersho 1988,
"Efficient bit allocation for an arbitrary set of quantizers"): from all groups at their narrowest, take the step that
saves most nats for a byte, again and again. On each group's convex hull the steps come in that order by themselves, and
every size on the way is reached with the least divergence that there is for it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from mlxbatch.convert.precision import Dtype, Packing, Precision
from mlxbatch.errors import UsageError
from mlxbatch.words import size

SCHEMA: Final = 1


@dataclass(frozen=True, slots=True)
class Width:
    """A group in so many bits, alone: its bytes with scales and offsets, and the mean divergence in nats a token."""

    bits: int
    bytes: int
    nats: float


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that are quantized together, by their paths; `plain_bytes` is what they take unquantized."""

    layers: tuple[str, ...]
    plain_bytes: int
    widths: tuple[Width, ...]


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What each width costs each group of a model, on one calibration.

    `fixed_bytes` is what is never quantized, in `dtype`; `tokens` were compared. `calibration_sha256` is that of its
    clips, `model_sha256` that of models.identity.
    """

    model_sha256: str
    calibration_sha256: str
    group_size: int
    dtype: Dtype
    fixed_bytes: int
    tokens: int
    groups: Mapping[str, Group]
    schema: Literal[1] = SCHEMA


@dataclass(frozen=True, slots=True)
class Allocation:
    """Bits by group, None for plain; what the weights take then, and what divergence is to be expected."""

    bits: Mapping[str, int | None]
    bytes: int
    nats: float


def fitting(found: Sensitivity, most: int) -> Allocation:
    """The least divergence in weights of at most so many bytes. UsageError where even the narrowest take more."""
    chosen = _narrowest(found)
    left = most - found.fixed_bytes - sum(option.bytes for option in chosen.values())
    if left < 0:
        least = size(most - left)
        raise UsageError(f"a target of {size(most)}: no widths that were measured make it smaller than {least}")
    for step in _steps(found):
        # A step that does not fit is passed over, and with it those after it in its group; others may still fit.
        if step.before == chosen[step.group] and step.more <= left:
            chosen[step.group] = step.after
            left -= step.more
    return _allocation(found, chosen)


def smallest(found: Sensitivity, acceptable: Callable[[Allocation], bool]) -> Allocation:
    """The first on the way up that is acceptable, found by halving; all plain where none before is.

    On that way divergence only falls; where what is asked does as well, it is the smallest there is.
    """
    way = [_narrowest(found)]
    for step in _steps(found):
        way.append({**way[-1], step.group: step.after})
    place = bisect_left(way, True, hi=len(way) - 1, key=lambda chosen: acceptable(_allocation(found, chosen)))
    return _allocation(found, way[place])


def precision(found: Sensitivity, allocation: Allocation) -> Precision:
    """The allocation as the converter takes it."""
    packed, kept = {}, {}
    for name, bits in allocation.bits.items():
        for layer in found.groups[name].layers:
            if bits is None:
                kept[layer] = "plain by its sensitivity"
            else:
                packed[layer] = Packing(bits, found.group_size)
    return Precision(packed, found.dtype, kept)


# ---- the way up


@dataclass(frozen=True, slots=True)
class _Option:
    bytes: int
    nats: float
    bits: int | None


@dataclass(frozen=True, slots=True)
class _Step:
    group: str
    before: _Option
    after: _Option

    @property
    def more(self) -> int:
        return self.after.bytes - self.before.bytes

    @property
    def worth(self) -> float:
        """Nats that a byte saves."""
        return (self.before.nats - self.after.nats) / self.more


def _hull(group: Group) -> list[_Option]:
    """The group's options that no mixture of others beats, the narrowest first."""
    options = [_Option(one.bytes, one.nats, one.bits) for one in group.widths]
    hull: list[_Option] = []
    for option in sorted([*options, _Option(group.plain_bytes, 0.0, None)], key=lambda one: (one.bytes, one.nats)):
        if hull and option.nats >= hull[-1].nats:
            continue
        while len(hull) > 1 and _Step("", hull[-2], hull[-1]).worth <= _Step("", hull[-1], option).worth:
            hull.pop()
        hull.append(option)
    return hull


def _narrowest(found: Sensitivity) -> dict[str, _Option]:
    return {name: _hull(group)[0] for name, group in found.groups.items()}


def _steps(found: Sensitivity) -> list[_Step]:
    """All steps between neighbours on the hulls, the worthiest first: a group's own in their order."""

    def all_steps() -> Iterator[_Step]:
        for name, group in found.groups.items():
            yield from (_Step(name, *pair) for pair in pairwise(_hull(group)))

    return sorted(all_steps(), key=lambda step: step.worth, reverse=True)


def _allocation(found: Sensitivity, chosen: Mapping[str, _Option]) -> Allocation:
    return Allocation(
        {name: option.bits for name, option in chosen.items()},
        found.fixed_bytes + sum(option.bytes for option in chosen.values()),
        math.fsum(option.nats for option in chosen.values()),
    )
