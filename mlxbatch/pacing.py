"""When a further recording may begin: not once the time is up, and not while the machine is busy.

What is running goes on either way. Nothing here waits, and the time and the load come from outside in tests.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

# Seconds after the time limit in which recordings that were begun may still be finished.
GRACE = 60.0
# Seconds between two looks at the load average, which the system itself renews about as often.
EVERY = 5.0


def clock() -> float:
    """Seconds that go on while the machine sleeps, as a limit does that people set by the time of day.

    time.monotonic stands still in sleep on both systems; CLOCK_BOOTTIME does not, nor does CLOCK_MONOTONIC on macOS
    (clock_gettime(3)).
    """
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def load_average() -> float:
    """Processes that ran or waited to, averaged over the last minute. Raises OSError where the system does not tell."""
    return os.getloadavg()[0]


class Pace:
    """The time limit and `--max-load` of one run.

    `stop_at` is on `clock`. Like `make -l`, a load average over `max_load` holds further recordings back, but never
    the only one: with nothing running, the next one begins whatever the load.
    """

    def __init__(
        self,
        stop_at: float | None = None,
        max_load: float | None = None,
        *,
        clock: Callable[[], float] = clock,
        load: Callable[[], float] = load_average,
    ) -> None:
        self.stop_at, self.max_load = stop_at, max_load
        # Facts of the log's "load" events, to be taken by whoever writes it.
        self.told: deque[dict[str, Any]] = deque()
        self._clock, self._load = clock, load
        self._looked: float | None = None
        self._busy = False
        self._looking = threading.Lock()  # the feed's thread asks, and the run's own

    def over(self) -> bool:
        """Whether the time is up, so that nothing more is begun."""
        return self.stop_at is not None and self._clock() >= self.stop_at

    def grace(self) -> float | None:
        """Seconds until what was begun has had its grace after the time limit; None without a limit."""
        return None if self.stop_at is None else max(0.0, self.stop_at + GRACE - self._clock())

    def look(self, running: int) -> bool:
        """Whether the machine is over `max_load`, looked at every few seconds; not once the time is up.

        `running` recordings are being worked on: with none, nobody has to give way.
        """
        with self._looking:
            return bool(running) and not self.over() and self._is_busy(self._clock())

    def pause(self, running: int) -> float | None:
        """Seconds until it is worth asking again whether a recording may begin; 0.0: one may, None: none will any more.

        `running` recordings are being worked on.
        """
        now = self._clock()
        left = math.inf if self.stop_at is None else self.stop_at - now
        if left <= 0:
            return None
        return min(EVERY, left) if self.look(running) else 0.0

    def _is_busy(self, now: float) -> bool:
        if self.max_load is None:
            return False
        if self._looked is None or now - self._looked >= EVERY:
            self._looked = now
            self._judge(self._load(), self.max_load)
        return self._busy

    def _judge(self, load: float, most: float) -> None:
        busy = load > most
        if busy == self._busy:
            return
        self._busy = busy
        self.told.append({"busy": busy, "load": round(load, 2), "max_load": most})
