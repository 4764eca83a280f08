"""Figures as people read them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

from mlxbatch.types import WindowStats

# Likenesses (the ratio of Python's difflib) that differ by less do not say which of two names was meant.
_ABOUT_AS_NEAR = 0.02


def size(number: int) -> str:
    """Bytes in powers of 1000: "812 MB", "1.2 GB"."""
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:.0f} MB"


def minutes(seconds: float) -> str:
    """An amount of audio: "42 s", "3.5 min", "12.3 h"."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def clock(seconds: float) -> str:
    """A time span: "0:07", "12:34", "1:02:03"."""
    hours, rest = divmod(round(seconds), 3600)
    minute, second = divmod(rest, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


def elapsed(seconds: float) -> str:
    """A time that was measured: "0.6 s", "12:34"."""
    return f"{seconds:.1f} s" if seconds < 10 else clock(seconds)


def count(number: int, word: str) -> str:
    """ "1 group", "3 groups"."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def files(number: int) -> str:
    return count(number, "file")


_NOT_TAKEN = (
    ("waiting", "file", "waiting"),
    ("older", "file", "older"),
    ("excluded", "file", "excluded"),
    ("excluded_folders", "folder", "excluded"),
    ("ignored", "other file", "passed over"),
)


def not_taken(counts: Mapping[str, int]) -> str:
    """Files that a run did not take, by filters.REASONS: "2 files waiting, 1 folder excluded"; "" of none."""
    found = [(counts.get(reason, 0), thing, fate) for reason, thing, fate in _NOT_TAKEN]
    return ", ".join(f"{count(number, thing)} {fate}" for number, thing, fate in found if number)


def share(number: float) -> str:
    """A share of a whole: "3 %", "0.4 %", "100 %"; 0 and 1 only where it is exactly that."""
    percent = number * 100
    if 0 < percent < 0.1:
        return "under 0.1 %"
    if 0 < percent < 9.95 or 99.5 <= percent < 100:
        return f"{min(percent, 99.9):.1f} %"
    return f"{percent:.0f} %"


def cut_off(windows: Sequence[WindowStats]) -> list[str]:
    """The warning of windows whose text was cut off, if there are any; the first of them by name."""
    cut = [window for window in windows if window.cut]
    if not cut:
        return []
    places = ", ".join(clock(window.start) for window in cut[:3]) + (", ..." if len(cut) > 3 else "")
    what = f"the text of {count(len(cut), 'window')} was cut off after {max(window.tokens for window in cut)} tokens"
    return [f"{what}, and what follows may be missing (window at {places})"]


def nearest(name: str, known: Iterable[str], likeness: float = 0.4) -> str:
    """ "; did you mean 'rtfx'?" where one of the known names is near, else nothing: the end of an error's line.

    Of two that are about as near both are named. `likeness` is the least that counts as near, from 0 to 1 (the ratio of
    Python's difflib).
    """
    found = difflib.get_close_matches(name, list(known), n=2, cutoff=likeness)
    if len(found) == 2 and _likeness(name, found[1]) < _likeness(name, found[0]) - _ABOUT_AS_NEAR:
        del found[1]
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else ""


def _likeness(name: str, known: str) -> float:
    return difflib.SequenceMatcher(None, known, name).ratio()


def near(name: str, known: Iterable[str], likeness: float) -> str:
    """The known name that is nearest; "" where none is."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=likeness)), "")
