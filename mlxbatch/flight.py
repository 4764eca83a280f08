"""Which jobs a child has, which wait, and which one is to blame when it dies. Pure: no process, no pipe."""

from __future__ import annotations

from collections import deque

from mlxbatch.errors import DeviceLost
from mlxbatch.types import Job, JobFailed, Output

# Children that may die one after the other with nothing finished in between, before it is the machine's fault.
PATIENCE = 5


class Flight:
    """Jobs on their way through children that may die.

    What a child takes with it becomes suspect, and suspects go one at a time with nothing else in flight: the job at
    fault dies alone and fails, the others are done. Dying in company, or once by itself, proves nothing against a job:
    the system may have killed the child.
    """

    def __init__(self) -> None:
        self._flying: dict[int, Job] = {}
        self._backlog: deque[Job] = deque()
        self._suspects: deque[Job] = deque()
        self._alone = False
        self._fruitless = 0

    def __len__(self) -> int:
        """Jobs that are not finished."""
        return len(self._flying) + self.unsent

    @property
    def unsent(self) -> int:
        """Jobs that no child has."""
        return len(self._backlog) + len(self._suspects)

    def add(self, job: Job) -> None:
        self._backlog.append(job)

    def take_off(self) -> Job | None:
        """The next job for the child, which counts as in flight from here on; None where none may go now."""
        if self._alone or not self.unsent:
            return None
        self._alone = bool(self._suspects)
        job = (self._suspects or self._backlog).popleft()
        self._flying[job.id] = job
        return job

    def call_back(self, job: Job) -> None:
        """The job could not be sent, for the child is dead: it had no part in that."""
        del self._flying[job.id]
        (self._suspects if self._alone else self._backlog).appendleft(job)
        self._alone = False

    def settle(self, output: Output | JobFailed) -> None:
        """Something was finished: a window, or with it the job."""
        self._fruitless = 0
        if isinstance(output, JobFailed) or output.last:
            self._flying.pop(output.job_id, None)
            self._alone = self._alone and bool(self._flying)

    def crash(self, cause: str) -> JobFailed | None:
        """The child died, with what it had: the failure of the job that is to blame, where it is known."""
        lost, alone = list(self._flying.values()), self._alone
        self._flying.clear()
        self._alone = False
        self.count_death(cause)
        if alone:
            return JobFailed(lost[0].id, cause)
        self._suspects.extend(lost)
        return None

    def count_death(self, cause: str) -> None:
        """DeviceLost where children die again and again with nothing finished in between."""
        self._fruitless += 1
        if self._fruitless > PATIENCE:
            raise DeviceLost(f"the engine died {self._fruitless} times with nothing finished in between: {cause}")
