"""Spans of time as people write them: "90s", "10m", "2h", "1d", "1h30m". Pure."""

from __future__ import annotations

import re

from mlxbatch.errors import UsageError, show

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])", re.ASCII)
_WHOLE = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
# Ten years: what is longer is a slip, and the system's calls that wait do not take it.
_LONGEST = 3650 * 86_400.0


def parse_duration(text: str) -> float:
    """Seconds of "90s", "10m", "2h", "1d", "1h30m", or of a plain number; UsageError for anything else.

    Zero is a duration, a sign is not, and ten years are the longest.
    """
    plain = text.strip().lower()
    if _NUMBER.fullmatch(plain):
        seconds = float(plain)
    elif _WHOLE.fullmatch(plain):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(plain))
    else:
        raise UsageError(f"not a duration: '{show(text)}' (write it as 90s, 10m, 2h, 1d or 1h30m)")
    if seconds > _LONGEST:
        raise UsageError(f"not a duration: '{show(text)}' is longer than ten years")
    return seconds


def as_text(seconds: float) -> str:
    """A duration as it would be written for `parse_duration`, to the second: "45s", "1h30m", "2d"; "0s" of nothing."""
    rest, parts = round(seconds), []
    for unit in ("d", "h", "m", "s"):
        number, rest = divmod(rest, _UNITS[unit])
        parts += [f"{number}{unit}"] if number else []
    return "".join(parts) or "0s"
