"""Which of the files that were found are taken, and as what the others count."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from mlxbatch.durations import parse_duration
from mlxbatch.errors import UsageError, show
from mlxbatch.patterns import Pattern

# "ignored": no kind of file that holds sound. "excluded_folders" counts folders that were not entered.
NotTaken = Literal["waiting", "older", "excluded", "excluded_folders", "ignored"]
REASONS: tuple[NotTaken, ...] = ("waiting", "older", "excluded", "excluded_folders", "ignored")

_WRITE_IT = "write it as 24h or 7d, as 2026-12-01 or 2026-12-01T18:30, or name a file to compare with"


@dataclass(frozen=True, slots=True)
class Filters:
    """What is asked of each file beside where it is; paths are those below the input directory.

    A file is taken where it, or a folder above it, matches one of `include` (all do where there are none) and none of
    `exclude`, was changed after `newer_than` (seconds since the epoch), and not in the last `min_age` seconds: then it
    may still be being written, and waits for the next run. A time of change that lies further ahead than that is a
    wrong clock's, and nobody waits for it.
    """

    include: tuple[Pattern, ...] = ()
    exclude: tuple[Pattern, ...] = ()
    newer_than: float | None = None
    min_age: float = 0.0
    now: float = field(default_factory=time.time)

    def leaves_out(self, path: str) -> bool:
        """Whether a file, or a folder with all that is in it where the path ends in "/", is excluded."""
        return any(one.matches(path) for one in self.exclude)

    def reason(self, path: str, stat: Callable[[], os.stat_result]) -> NotTaken | None:
        """Why a file is not taken, None where it is. What cannot be looked at is taken, and fails by name later."""
        if self.include and not any(one.matches(path) for one in self.include):
            return "excluded"
        if self.leaves_out(path):
            return "excluded"
        if self.newer_than is None and not self.min_age:
            return None
        try:
            changed = stat().st_mtime
        except OSError:
            return None
        if self.newer_than is not None and changed <= self.newer_than:
            return "older"
        return "waiting" if abs(self.now - changed) < self.min_age else None

    def names_kind(self, path: str) -> bool:
        """Whether a file is asked for by a pattern that says its kind, such as `*.bin`: it need not look like sound."""
        return any(one.names(path) for one in self.include)


def parse_moment(text: str, now: float) -> float:
    """Seconds since the epoch of a date, of a duration before `now`, or of a file's last change, in this order.

    Without a time zone a date is local time. UsageError for anything else, and for what is still to come.
    """
    moment = _date(text)
    if moment is None:
        moment = _before(text, now)
    if moment is None:
        return _changed(text)
    if moment > now:
        raise UsageError(f"'{show(text)}' is still to come: nothing can be newer")
    return moment


def _date(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError):
        return None


def _before(text: str, now: float) -> float | None:
    if not text.strip()[-1:].isalpha():  # a bare number could as well be a year
        return None
    try:
        return now - parse_duration(text)
    except UsageError:
        return None


def _changed(text: str) -> float:
    try:
        return os.stat(text).st_mtime  # noqa: PTH116 - an empty text is no path, and would be the working directory
    except (OSError, ValueError) as error:
        raise UsageError(f"'{show(text)}' is no moment, and no file that can be looked at: {_WRITE_IT}") from error
