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
        sample_rate: int = 16_000,
    ) -> None:
        """`sample_rate`: that of the engine, at which recordings are decoded."""
        self._sample_rate = sample_rate
        self.active: dict[int, Prepared] = {}
        self.aside: deque[Failed] = deque()
        self._settings, self._read, self._pace = settings, read, pace
        self._changed = threading.Condition()
        self._closed = False
        self._prefetch: Prefetch[Planned, Prepared | Failed] = Prefetch(
            prepare,
            planned,
            workers=settings.workers,
            count=settings.prefetch_items,
            size=settings.prefetch_bytes,
            cost=self._cost,
        )
        self._planned, self._suspects = deque(planned), deque(suspects)
        self._waiting: deque[Job] = deque()  # the other tracks of a recording that has begun
        self._held: dict[str, int] = {}  # items that have a place in the prefetch, and how much of it
        self._number = 0

    def __iter__(self) -> Iterator[Job]:
        return self

    def __next__(self) -> Job:
        while not self._waiting or self._closed:
            self._await_turn()
            prepared = self._next()
            if isinstance(prepared, Failed):
                self.aside.append(prepared)
            else:
                self._waiting += self._jobs(prepared)
        return self._waiting.popleft()

    def _next(self) -> Prepared | Failed:
        """What comes next, decoded: a place in the prefetch is kept for what the engine gets of it."""
        if not self._planned:
            return self._read(self._suspects.popleft())
        prepared = next(self._prefetch)
        planned = self._planned.popleft()
        if isinstance(prepared, Failed):
            self._prefetch.release(self._cost(planned))
        else:
            self._held[planned.probed.item.id] = self._cost(planned)
        return prepared

    def _jobs(self, prepared: Prepared) -> list[Job]:
        """A job for each track. All are active from here on: a recording that has begun is to come to its end."""
        recording, planned = prepared.recording, prepared.planned
        options = self._settings.options_for(planned.probed.item)
        jobs = [
            Job(number, planned.probed.item.id, samples, recording.seconds, planned.group, channel, options)
            for number, (channel, samples) in enumerate(
                zip(recording.channels, recording.samples, strict=True), self._number
            )
        ]
        self._number += len(jobs)
        self.active |= {job.id: prepared for job in jobs}
        return jobs

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
        if self._closed or self._waiting or not (self._planned or self._suspects):
            return True
        pause = self._pace.pause(len(self.active))
        if pause is None or pause:
            return pause is None
        return self._prefetch.ready() if self._planned else not self.active

    def release(self, job_id: int) -> Prepared:
        """A job is done with; with the last of its recording, another may be decoded, or begun."""
        prepared = self.active.pop(job_id)
        item_id = prepared.planned.probed.item.id
        over = not any(other is prepared for other in list(self.active.values()))
        if over and item_id in self._held:
            self._prefetch.release(self._held.pop(item_id))
        with self._changed:
            self._changed.notify_all()
        return prepared

    def _cost(self, planned: Planned) -> int:
        """Bytes of the decoded samples, float32 at the engine's rate, by the header's length."""
        return int(planned.probed.seconds * self._sample_rate * 4) * planned.rows

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._prefetch.close()
