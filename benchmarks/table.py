"""Figures as they are printed: Markdown, which a document takes as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Self


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of what several rounds gave, and how far they lay apart."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        return cls(median(values), min(values), max(values))

    @classmethod
    def ratios(cls, above: Sequence[float], below: Sequence[float]) -> Self:
        """Of the rounds' pairs: what both sides of a pair met of the machine's load cancels out."""
        return cls.of([a / b for a, b in zip(above, below, strict=True)])

    def text(self, digits: int = 2) -> str:
        return f"{self.median:.{digits}f} ({self.least:.{digits}f} to {self.most:.{digits}f})"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table: what was measured, and what is to be reached.

    `value` is the measured one as text, with its unit; `beside` what it has to be read with: a word error rate, or why
    there is no value.
    """

    what: str
    value: str
    reach: str
    aim: str
    beside: str = ""


def figures_table(figures: Sequence[Figure]) -> str:
    rows = [[one.what, one.value, one.reach, one.aim, one.beside] for one in figures]
    return markdown(["what", "measured", "reach", "aim", "beside it"], rows)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with columns as wide as they need be, so that it reads well as it is, too."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(3, *(len(line[column]) for line in lines)) for column in range(len(head))]
    padded = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |" for line in lines]
    return "\n".join([padded[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *padded[1:]])


def percent(share: float) -> str:
    return f"{share:.2%}".replace("%", " %")


def gigabytes(size: float) -> str:
    return f"{size / 1e9:.2f} GB"
