"""Jobs for the engine in plan order, decoded ahead, each when its turn has come."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mlxbatch.content import Fingerprint
from mlxbatch.pacing import Pace
from mlxbatch.pipeline import Prefetch
from mlxbatch.run_settings import RunSettings
from mlxbatch.types import Failed, Item, Job, Planned, Recording

# Seconds between two looks at whether a turn has come.
LOOK = 0.25


@dataclass(frozen=True, slots=True)
class Prepared:
    """A decoded recording and what its file was before it was read."""

    planned: Planned
    recording: Recording
    fingerprint: Fingerprint
    content_hash: str


Prepare = Callable[[Planned], Prepared | Failed]
Read = Callable[[Item], Prepared | Failed]
"""From a file to its samples, header first: all that is done to a suspect, and in one go."""


class Feed:
    """The jobs (engines.base.Jobs) of a run. What cannot be decoded is put into `aside` and passed over.

    Each waits for its turn (mlxbatch.pacing); after the time limit none comes. The suspects come last, and one is not
    even opened before all that came earlier is done with: if it ends the program, it takes nothing with it.
    """

    def __init__(
        self,
        planned: Sequence[Planned],
        prepare: Prepare,
        suspects: Sequence[Item],
        read: Read,
        settings: RunSettings,
        pace: Pace,
    ) -> None:
        self.active: dict[int, Prepared] = {}
        self.aside: deque[Failed] = deque()
        self._options, self._read, self._pace = settings.options, read, pace
        self._changed = threading.Condition()
        self._closed = False
        self._prefetch: Prefetch[Planned, Prepared | Failed] = Prefetch(
            prepare,
            planned,
            workers=settings.workers,
            count=settings.prefetch_items,
            size=settings.prefetch_bytes,
            cost=_cost,
        )
        self._planned, self._suspects = deque(planned), deque(suspects)
        self._held: set[int] = set()  # jobs that have a place in the prefetch
        self._number = -1

    def __iter__(self) -> Iterator[Job]:
        return self

    def __next__(self) -> Job:
        while True:
            self._await_turn()
            prepared = self._next()
            self._number += 1
            if isinstance(prepared, Failed):
                self.aside.append(prepared)
                continue
            self.active[self._number] = prepared
            return self._job(prepared)

    def _next(self) -> Prepared | Failed:
        """What comes next, decoded: a place in the prefetch is kept for what the engine gets of it."""
        if not self._planned:
            return self._read(self._suspects.popleft())
        prepared = next(self._prefetch)
        planned = self._planned.popleft()
        if isinstance(prepared, Failed):
            self._prefetch.release(_cost(planned))
        else:
            self._held.add(self._number + 1)
        return prepared

    def _job(self, prepared: Prepared) -> Job:
        recording, planned = prepared.recording, prepared.planned
        return Job(
            id=self._number,
            item_id=planned.probed.item.id,
            samples=recording.samples[0],
            seconds=recording.seconds,
            group=planned.group,
            options=self._options,
        )

    def _await_turn(self) -> None:
        """Returns when the next one may come; StopIteration where none will."""
        with self._changed:
            while not self._closed and (self._planned or self._suspects):
                pause = self._pace.pause(len(self.active))
                if pause is None:
                    break
                if pause == 0.0 and self._is_there():
                    return
                self._changed.wait(pause or LOOK)
        raise StopIteration

    def _is_there(self) -> bool:
        """Whether the next one is decoded, or may be; without a time limit one may as well wait for it."""
        if not self._planned:
            return not self.active
        return self._pace.stop_at is None or self._prefetch.ready()

    def ready(self) -> bool:
        """Whether `next()` would return, or end, at once: how an engine looks ahead without idling its device."""
        if self._closed or not (self._planned or self._suspects):
            return True
        pause = self._pace.pause(len(self.active))
        if pause is None or pause:
            return pause is None
        return self._prefetch.ready() if self._planned else not self.active

    def release(self, job_id: int) -> Prepared:
        """A recording is done with: another may be decoded, or begun."""
        prepared = self.active.pop(job_id)
        if job_id in self._held:
            self._held.discard(job_id)
            self._prefetch.release(_cost(prepared.planned))
        with self._changed:
            self._changed.notify_all()
        return prepared

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._prefetch.close()


def _cost(planned: Planned) -> int:
    """Bytes of the decoded samples, mono float32 at 16 kHz, by the header's length."""
    return int(planned.probed.seconds * 16_000 * 4)
