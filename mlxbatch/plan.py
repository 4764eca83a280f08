"""The order and the groups in which recordings are done. Pure: header facts in, a list out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from mlxbatch.types import Planned, Probed


def one_row(probed: Probed) -> int:
    """All channels in one mix."""
    return 1


def plan(
    probed: Sequence[Probed],
    *,
    batch_size: int,
    need: Callable[[float], int],
    budget: int,
    rows: Callable[[Probed], int] = one_row,
) -> list[Planned]:
    """Longest recordings first, in groups of at most `batch_size` rows whose needs together fit in `budget` bytes.

    `need` is the bytes that one row of that many seconds takes (Engine.need), `rows` how many rows become of a
    recording; `budget` is `budget.planning_budget`. A recording over either bound is a group by itself, never left out
    and never divided. Each item comes exactly once. Equal lengths go by output path, so that a plan depends on its
    input alone, not on its order.

    Longest first: neighbours in length pad each other least, memory shows its worst at the start, and the end of the
    run has short pieces to even out the workers.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, not {batch_size}")
    planned: list[Planned] = []
    group, filled, taken = 0, 0, 0
    for one in sorted(probed, key=_longest_first):
        count = rows(one)
        needed = count * need(one.seconds)
        if filled and (filled + count > batch_size or taken + needed > budget):
            group, filled, taken = group + 1, 0, 0
        planned.append(Planned(one, group, count))
        filled, taken = filled + count, taken + needed
    return planned


def _longest_first(probed: Probed) -> tuple[float, str]:
    return -probed.seconds, str(probed.item.relpath)


def groups(planned: Iterable[Planned]) -> list[list[Probed]]:
    """The plan's groups, in their order."""
    return [[one.probed for one in members] for members in grouped(planned)]


def grouped(planned: Iterable[Planned]) -> list[list[Planned]]:
    """The same with what the plan knows of each."""
    return [list(members) for _, members in groupby(planned, key=lambda one: one.group)]


def padding_ratio(planned: Iterable[Planned]) -> float:
    """The share of computed seconds that would be padding were each row padded to its group's longest: 0 to 1."""
    real = padded = 0.0
    for members in grouped(planned):
        lengths = [one.probed.seconds for one in members for _ in range(one.rows)]
        real += sum(lengths)
        padded += max(lengths) * len(lengths)
    return 1.0 - real / padded if padded else 0.0


class Countdown:
    """Counts the groups of a plan down, to tell when the last recording of one is finished. Times as they are given.

    In what is told, the first group is number 1.
    """

    def __init__(self, planned: Sequence[Planned], now: float) -> None:
        self._groups = {one.probed.item.id: one.group for one in planned}
        self._lengths = {number: [one.seconds for one in group] for number, group in enumerate(groups(planned))}
        self._left = {number: len(lengths) for number, lengths in self._lengths.items()}
        self._began = now

    def finished(self, item_id: str, now: float) -> dict[str, float] | None:
        """Take a recording off; the facts of its group where it was the last, None for one of no group.

        Groups overlap: each lasts from the end of the one before.
        """
        group = self._groups.pop(item_id, None)
        if group is None:
            return None
        self._left[group] -= 1
        if self._left[group]:
            return None
        lengths = self._lengths.pop(group)
        facts = {"group": group + 1, "items": len(lengths), "seconds": sum(lengths), "longest": max(lengths)}
        facts |= {"took": now - self._began}
        self._began = now
        return facts
