"""Whether something comes on: a counter that stands still for too long has stalled. Pure, but for the clock."""

from __future__ import annotations

import time
from collections.abc import Callable

# Seconds between two looks beyond which nobody was watching: the watcher itself was stopped, or waited for a disk.
UNWATCHED = 5.0


class Watchdog:
    """Watches a counter of progress. `patience` is in seconds; it wears out only while somebody watches.

    Time in which the machine sleeps does not count (time.monotonic), nor does time between two looks that is longer
    than UNWATCHED: what happened in it has not been heard yet.
    """

    def __init__(self, patience: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.patience, self._clock = patience, clock
        self.begin()

    def begin(self) -> None:
        """Nothing is known of any progress, and patience begins anew."""
        self.seen = 0.0
        self._since = self._looked = self._clock()

    def see(self, progress: float) -> None:
        """The counter now; any other value than before is progress."""
        now = self._clock()
        if now - self._looked > UNWATCHED:
            self._since += now - self._looked
        self._looked = now
        if progress != self.seen:
            self.seen, self._since = progress, now

    @property
    def stalled(self) -> bool:
        return self._looked - self._since > self.patience
