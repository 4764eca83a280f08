"""Figures as people read them."""

from __future__ import annotations


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
