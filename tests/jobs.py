"""Jobs for engines and hosts, without files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from mlxbatch.types import Job

RATE = 16_000


def job(number: int, samples: int = RATE) -> Job:
    """A job with samples of its own: noise from its number."""
    noise = np.random.default_rng(number).random(samples, dtype=np.float32)
    return Job(number, f"item {number}", noise, samples / RATE)


class Given:
    """The jobs (engines.base.Jobs), one by one; `ready` says whether the next one is there."""

    def __init__(self, jobs: Iterable[Job], ready: Callable[[], bool] = lambda: True) -> None:
        self._jobs, self.ready = iter(jobs), ready

    def __iter__(self) -> Iterator[Job]:
        return self

    def __next__(self) -> Job:
        return next(self._jobs)


class Arriving(Given):
    """Jobs of which only `here` are there: asking for a further one would block."""

    def __init__(self, jobs: Iterable[Job], here: int) -> None:
        super().__init__(jobs, lambda: self.here > 0)
        self.here, self.blocked = here, 0

    def __next__(self) -> Job:
        self.blocked += self.here == 0
        self.here = max(0, self.here - 1)
        return super().__next__()
