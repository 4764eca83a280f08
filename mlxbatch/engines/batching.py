"""The generic loop for models that take a list and give a list: look ahead, sort, group, infer, halve on trouble."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum

from mlxbatch.engines.base import Admit, Jobs
from mlxbatch.errors import OutOfMemory
from mlxbatch.types import Job, JobFailed, Output

# Batches in a row that have to go well before a size that was halved is doubled.
RECOVERY = 8

Infer = Callable[[list[Job]], Iterable[Output | JobFailed]]
"""One forward pass over a batch: outputs of every job in it, in any order, at its end or as they come."""


class Padding(Enum):
    """What a model does with rows of different lengths, and so which jobs may share a batch."""

    EXACT = "exact"  # no mask: only rows of one length, or padding would change the result
    MASKED = "masked"  # padding is masked: any lengths, near ones together to waste little
    FIXED = "fixed"  # every row is brought to one length anyway


def run_batches(
    jobs: Jobs,
    admit: Admit,
    infer: Infer,
    reclaim: Callable[[], None],
    *,
    size: int,
    padding: Padding,
    look_ahead: int = 4,
) -> Iterator[Output | JobFailed]:
    """Run every job through `infer` in batches of at most `size`.

    Looks ahead over up to `look_ahead * size` jobs, as far as they are ready, and sorts only within that stretch, so
    that a stream never waits for company. Out of memory: `reclaim` gives back what can be, and half the batch is tried
    again (what had come of it by then may come once more); a job that does not fit alone fails by itself. The size
    grows again after RECOVERY batches that went well.
    """
    waiting: list[Job] = []
    limit, well = size, 0
    while True:
        _fill(waiting, jobs, look_ahead * size)
        if not waiting:
            return
        batch = _next_batch(waiting, max(1, min(limit, admit(0))), padding)
        try:
            yield from infer(batch)
        except OutOfMemory as error:
            reclaim()
            well = 0
            if len(batch) == 1:
                yield JobFailed(batch[0].id, f"needs more memory than there is, even alone: {error}")
            else:
                limit = max(1, len(batch) // 2)
                waiting[:0] = batch
            continue
        finally:
            # Samples of finished jobs: not to be held while the next ones are awaited.
            del batch
        well += 1
        if well == RECOVERY:
            limit, well = min(size, 2 * limit), 0


def _fill(waiting: list[Job], jobs: Jobs, upto: int) -> None:
    """Take jobs while they are ready; block only for the first."""
    while len(waiting) < upto and (not waiting or jobs.ready()):
        job = next(jobs, None)
        if job is None:
            return
        waiting.append(job)


def _next_batch(waiting: list[Job], limit: int, padding: Padding) -> list[Job]:
    """Remove and return the jobs that go together with the longest one waiting."""
    waiting.sort(key=lambda job: (-job.seconds, job.id))
    batch = [job for job in waiting if padding is not Padding.EXACT or _same_length(job, waiting)][:limit]
    taken = {job.id for job in batch}
    waiting[:] = [job for job in waiting if job.id not in taken]
    return batch


def _same_length(job: Job, waiting: Sequence[Job]) -> bool:
    return len(job.samples) == len(waiting[0].samples)
