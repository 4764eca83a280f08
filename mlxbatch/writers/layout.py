"""Pieces of text as cues of lines: few, broken where a reader pauses, and of about equal length. Pure.

Source: Knuth and Plass 1981, "Breaking Paragraphs into Lines": breaks are chosen together, by what they cost in all.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from mlxbatch.line_rules import LineRules
from mlxbatch.writers.line_breaks import columns, ends_clause, ends_sentence
from mlxbatch.writers.pieces import Piece, Timed

Line = Sequence[Piece]


class _Costs(NamedTuple):
    """Of a part, and of a break behind a clause and in the middle of one; behind a sentence it is free.

    A part that is nearly empty costs 1 more.
    """

    part: float
    clause: float
    middle: float


# A cue more, at the end of a sentence or a clause, is better than one that begins in the middle of a sentence.
_CUES = _Costs(part=1.0, clause=1.0, middle=3.0)
# A line more costs more than any breaks can: they are as few as fit. Of equal length before all.
_LINES = _Costs(part=1000.0, clause=0.25, middle=0.5)


def cues_of_lines(said: Timed, rules: LineRules, label: int = 0) -> list[list[Line]]:
    """Each cue's lines. The first line of each has `label` columns that are taken; the first piece stays with them.

    No line is wider than the rules allow, unless it is a single piece, and no cue has more lines.
    """
    width = rules.width
    runs = _runs(said, rules.max_gap)
    if width is None:
        return [[run] for run in runs]
    measured = [_Measured(said.text, run, width, label) for run in runs]
    parts = [part for run in measured for part in run.cues(rules.max_line_count)]
    return [_Measured(said.text, part, width, label).lines() for part in parts]


def _runs(said: Timed, max_gap: float | None) -> list[Line]:
    """The pieces between pauses of more than `max_gap` seconds."""
    if max_gap is None:
        return [said.pieces]
    gaps = [after.start - before.stop for before, after in pairwise(said.pieces)]
    cuts = [at for at, gap in enumerate(gaps, 1) if gap > max_gap * 1000]
    return [said.pieces[begin:end] for begin, end in pairwise([0, *cuts, len(said.pieces)])]


class _Measured:
    """Pieces in a row, with the columns from the first one's begin at which each begins and ends."""

    def __init__(self, text: str, pieces: Line, width: int, label: int) -> None:
        self._text, self._pieces, self._width, self._label = text, pieces, width, label
        base = pieces[0].begin
        taken = [0, *accumulate(map(columns, text[base : pieces[-1].end]))]
        self._begins = [taken[piece.begin - base] for piece in pieces]
        self._ends = [taken[piece.end - base] for piece in pieces]

    def lines(self) -> list[Line]:
        """All pieces as the lines of one cue."""
        begins = [self._begins[0] - self._label, *self._begins[1:]]
        reach = [self._line_end(first, begins[first] + self._width) for first in range(len(begins))]
        return self._cheapest(_LINES, begins, reach, self._width)

    def cues(self, max_lines: int | None) -> list[Line]:
        """All pieces as cues, each to be made into at most so many lines."""
        if max_lines is None:
            return [self._pieces]
        begins = [begin - self._label for begin in self._begins]
        reach = [self._cue_end(first, max_lines) for first in range(len(begins))]
        return self._cheapest(_CUES, begins, reach, max_lines * self._width)

    def _line_end(self, first: int, limit: int) -> int:
        """The piece behind the last one that a line from `first` to `limit` columns holds: it always holds one."""
        return max(first + 1, bisect_right(self._ends, limit))

    def _cue_end(self, first: int, max_lines: int) -> int:
        """The piece behind the last one of the longest cue that begins with `first`."""
        end, room = first, self._width - self._label
        for _ in range(max_lines):
            if end < len(self._begins):
                end, room = self._line_end(end, self._begins[end] + room), self._width
        return end

    def _cheapest(self, costs: _Costs, begins: Sequence[int], reach: Sequence[int], room: int) -> list[Line]:
        """The parts whose costs are least in all; one that begins with a piece ends at `reach` of it at the latest."""
        least, came_from = [0.0], [0]
        for last, (piece, end) in enumerate(zip(self._pieces, self._ends, strict=True), 1):
            best, begin, first = math.inf, 0, last - 1
            while first >= 0 and last <= reach[first]:
                empty = max(0, room - end + begins[first]) / room
                price = least[first] + empty * empty  # squared: two halves are better than a whole and a rest
                if price < best:
                    best, begin = price, first
                first -= 1
            least.append(best + costs.part + self._break(costs, piece))
            came_from.append(begin)
        return self._traced(came_from)

    def _break(self, costs: _Costs, piece: Piece) -> float:
        """What it costs to break behind a piece."""
        word = self._text[piece.begin : piece.end]
        return 0.0 if ends_sentence(word) else costs.clause if ends_clause(word) else costs.middle

    def _traced(self, came_from: Sequence[int]) -> list[Line]:
        parts: list[Line] = []
        end = len(self._pieces)
        while end:
            parts.append(self._pieces[came_from[end] : end])
            end = came_from[end]
        return parts[::-1]
