"""Which models have to leave so that another one fits: the least recently used first, never one in use. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Held:
    """A model on the device: bytes of its weights, and whether somebody works with it."""

    key: str
    size: int
    in_use: bool


def leaving(held: Sequence[Held], asked: int, budget: int) -> list[str] | None:
    """The models to give up so that `asked` bytes more fit into `budget`; None where giving up all would not do.

    `held` begins with the least recently used. No model leaves in vain: the last one named is needed.
    """
    over = sum(one.size for one in held) + asked - budget
    gone: list[str] = []
    for one in held:
        if over <= 0:
            break
        if not one.in_use:
            gone.append(one.key)
            over -= one.size
    return gone if over <= 0 else None
