"""Which jobs a child has, which wait, and which one is to blame when it dies. Pure: no process, no pipe."""

from __future__ import annotations

from collections import Counter, deque

from mlxbatch.errors import DeviceLost
from mlxbatch.types import Job, JobFailed, Output

# Deaths one after the other with nothing finished in between, before it is the machine's fault. To find one of sixteen
# takes six, four halvings and twice alone, so this is several deadly recordings in a row.
PATIENCE = 32
# Deaths that a stall counts for: each takes the whole of the time that it is waited for.
STALL = 4
# Deaths of a job that had its child to itself, before it is to blame: the system may have killed the first.
PROOF = 2


class Flight:
    """Jobs on their way through children that may die.

    What a child takes with it becomes suspect, and suspects are bisected: one half has the next child to itself; if
    that ends well the half is cleared, if not it is halved again, until the job at fault is alone. Dying in company, or
    once by itself, proves nothing against a job.
    """

    def __init__(self) -> None:
        self._flying: dict[int, Job] = {}
        self._backlog: deque[Job] = deque()
        self._suspects: list[deque[Job]] = []  # groups to be tried, the last one first
        self._trial: deque[Job] | None = None  # what is left to be sent of the group that is being tried
        self._alone: Counter[int] = Counter()
        self._fruitless = self._deaths = 0

    def __len__(self) -> int:
        """Jobs that are not finished."""
        return len(self._flying) + self.unsent

    @property
    def flying(self) -> int:
        """Jobs that the child has."""
        return len(self._flying)

    @property
    def unsent(self) -> int:
        """Jobs that no child has."""
        return len(self._backlog) + len(self._trial or ()) + sum(len(group) for group in self._suspects)

    def add(self, job: Job) -> None:
        self._backlog.append(job)

    def take_off(self) -> Job | None:
        """The next job for the child, which counts as in flight from here on; None where none may go now."""
        if self._trial is None and self._suspects and not self._flying:
            self._trial = self._suspects.pop()
        if self._trial is None and self._suspects:
            return None
        queue = self._backlog if self._trial is None else self._trial
        if not queue:
            return None
        job = queue.popleft()
        self._flying[job.id] = job
        return job

    def call_back(self, job: Job) -> None:
        """The job could not be sent, for the child is dead: it had no part in that."""
        del self._flying[job.id]
        (self._backlog if self._trial is None else self._trial).appendleft(job)

    def settle(self, output: Output | JobFailed) -> None:
        """Something was finished: a window, or with it the job."""
        self._fruitless = self._deaths = 0
        if isinstance(output, JobFailed) or output.last:
            self._flying.pop(output.job_id, None)
            self._alone.pop(output.job_id, None)
            if not self._flying and not self._trial:
                self._trial = None

    def crash(self, cause: str, *, stalled: bool = False) -> JobFailed | None:
        """The child died, with what it had: the failure of the job that is to blame, where it is known.

        One that `stalled` while it had a job alone is proof at once: nobody but the job kept it.
        """
        lost = list(self._flying.values())
        self._flying.clear()
        if self._trial:  # not sent yet, so no more suspect than before
            self._suspects.append(self._trial)
        single = self._trial is not None and len(lost) == 1
        self._trial = None
        self.count_death(cause, STALL if stalled else 1)
        if single:
            return self._died_alone(lost[0], cause, 1 if stalled else PROOF)
        half = (len(lost) + 1) // 2
        self._suspects += [deque(group) for group in (lost[half:], lost[:half]) if group]
        return None

    def _died_alone(self, job: Job, cause: str, proof: int) -> JobFailed | None:
        self._alone[job.id] += 1
        if self._alone[job.id] >= proof:
            del self._alone[job.id]
            return JobFailed(job.id, cause, deadly=True)
        self._suspects.append(deque([job]))
        return None

    def count_death(self, cause: str, weight: int = 1) -> None:
        """DeviceLost where children die again and again with nothing finished in between."""
        self._deaths, self._fruitless = self._deaths + 1, self._fruitless + weight
        if self._fruitless > PATIENCE:
            raise DeviceLost(f"the engine died {self._deaths} times with nothing finished in between: {cause}")
