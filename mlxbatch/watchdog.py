"""Whether something comes on: a counter that stands still for too long has stalled. Pure, but for the clock."""

from __future__ import annotations

import time
from collections.abc import Callable


class Watchdog:
    """Watches a counter of progress. `patience` is in seconds; time in which the machine sleeps does not count."""

    def __init__(self, patience: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.patience, self._clock = patience, clock
        self.begin()

    def begin(self) -> None:
        """Nothing is known of any progress, and patience begins anew."""
        self.seen, self._since = 0.0, self._clock()

    def see(self, progress: float) -> None:
        """The counter now; any other value than before is progress."""
        if progress != self.seen:
            self.seen, self._since = progress, self._clock()

    @property
    def stalled(self) -> bool:
        return self._clock() - self._since > self.patience
