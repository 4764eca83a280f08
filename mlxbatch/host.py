"""EngineHost: a thread or a spawned child that owns device and engine; jobs go in, outputs and readings come out.

A child is the default. MLX can end its process (on Linux a request beyond memory is a segmentation fault), and a child
is replaced where a thread would take the run with it. The parent needs no MLX.
"""

from __future__ import annotations

import multiprocessing
import queue
import signal
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from typing import Literal, TypeVar

import numpy as np

from mlxbatch import worker
from mlxbatch.engines.base import EngineSpec, Jobs
from mlxbatch.errors import DeviceLost
from mlxbatch.types import Job, JobFailed, Output, Readings
from mlxbatch.worker import Event, Loaded, Needs, Raised, Reply, RunEnded

Kind = Literal["child", "thread"]
R = TypeVar("R")

# Children that may die one after the other with nothing finished in between, before it is the machine's fault.
PATIENCE = 5


class EngineHost(ABC):
    """`start`, then `load`, then `needs` and `run`; close it whatever happened."""

    def __init__(self, spec: EngineSpec) -> None:
        self.spec = spec

    @abstractmethod
    def start(self) -> None:
        """Begin to load the engine and come back at once."""

    @abstractmethod
    def load(self) -> Loaded:
        """Wait until the engine is loaded; raises what loading raised."""

    @abstractmethod
    def needs(self, seconds: Sequence[float]) -> list[int]:
        """`Engine.need` for each length, in bytes."""

    @abstractmethod
    def run(self, jobs: Jobs, rows: int) -> Iterator[Event]:
        """Run the jobs with at most `rows` live at once. A job that was begun anew repeats its windows."""

    @abstractmethod
    def close(self) -> None:
        """Stop at once, whatever runs."""


def make_host(spec: EngineSpec, kind: Kind) -> EngineHost:
    return ChildHost(spec) if kind == "child" else ThreadHost(spec)


class ThreadHost(EngineHost):
    """The engine on a thread of this process, for debugging and serial runs: it pulls the jobs itself.

    A thread cannot be replaced: what the engine raises ends the run.
    """

    def __init__(self, spec: EngineSpec) -> None:
        super().__init__(spec)
        self._commands: queue.Queue[worker.Command] = queue.Queue()
        self._replies: queue.Queue[Reply] = queue.Queue()
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)

    def _work(self) -> None:
        worker.work(self.spec, self._commands.get, self._replies.put)

    def start(self) -> None:
        self._thread.start()

    def load(self) -> Loaded:
        return _expect(self._replies.get(), Loaded)

    def needs(self, seconds: Sequence[float]) -> list[int]:
        self._commands.put(worker.AskNeeds(list(seconds)))
        return _expect(self._replies.get(), Needs).sizes

    def run(self, jobs: Jobs, rows: int) -> Iterator[Event]:
        self._commands.put(worker.Run(rows, jobs))
        while not isinstance(reply := self._replies.get(), RunEnded):
            yield _expect(reply, Event)

    def close(self) -> None:
        self._commands.put(worker.Stop())
        if self._thread.is_alive():
            self._thread.join(timeout=5)


@dataclass(frozen=True, slots=True)
class _Died:
    cause: str


@dataclass(frozen=True, slots=True)
class _FeedEnded:
    error: BaseException | None = None


class ChildHost(EngineHost):
    """The engine in a spawned child. When the child dies it is replaced, and the jobs it had are tried one by one.

    So the job at fault is found, fails with the cause, and the others are done. All sending happens on the caller's
    thread; one thread takes the child's replies, one pulls jobs, and both put what they get into one queue.
    """

    def __init__(self, spec: EngineSpec) -> None:
        super().__init__(spec)
        self._events: queue.Queue[tuple[int, Reply | _Died | Job | _FeedEnded]] = queue.Queue()
        self._generation = 0
        self._flight: dict[int, Job] = {}
        self._backlog: deque[Job] = deque()
        self._suspects: deque[Job] = deque()
        self._alone = False
        self._fruitless = 0

    # ---- the child's life

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._generation += 1
        self._slab = SharedMemory(create=True, size=worker.SLAB_SAMPLES * 4)
        self._commands, child_commands = context.Pipe()
        replies, child_replies = context.Pipe(duplex=False)
        arguments = (self.spec, child_commands, child_replies, self._slab.name)
        self._process = context.Process(target=worker.child, args=arguments, name="mlxbatch-engine", daemon=True)
        self._process.start()
        # Only the child holds these ends now, so its death is an end of file here.
        child_commands.close()
        child_replies.close()
        receiver = threading.Thread(target=self._receive, args=(replies, self._generation), daemon=True)
        receiver.start()

    def load(self) -> Loaded:
        try:
            return _expect(self._reply(), Loaded)
        finally:
            # Both sides have it mapped: without a name it cannot outlive them, even when both are killed.
            self._slab.unlink()

    def needs(self, seconds: Sequence[float]) -> list[int]:
        self._send(worker.AskNeeds(list(seconds)))
        return _expect(self._reply(), Needs).sizes

    def close(self) -> None:
        if self._generation == 0:
            return
        self._generation += 1
        self._process.kill()
        self._process.join()
        self._commands.close()
        self._slab.close()

    def _receive(self, replies: Connection, generation: int) -> None:
        process = self._process
        while True:
            try:
                self._events.put((generation, replies.recv()))
            except (EOFError, OSError):
                process.join()
                self._events.put((generation, _Died(_cause_of_death(process.exitcode))))
                return

    def _reply(self) -> Reply | _Died | Job | _FeedEnded:
        """The next event, without those of children that were replaced; a feed's have no generation (0)."""
        while True:
            generation, event = self._events.get()
            if generation in (0, self._generation):
                return event

    def _send(self, message: object) -> None:
        try:
            self._commands.send(message)
        except OSError:
            pass  # the child is dead: its end comes as an event, in order with what it still said

    # ---- jobs

    def run(self, jobs: Jobs, rows: int) -> Iterator[Event]:
        threading.Thread(target=self._feed, args=(jobs,), name="feed", daemon=True).start()
        self._send(worker.Run(rows))
        raised: Raised | None = None
        feeding = True
        while feeding or self._flight or self._backlog or self._suspects:
            match self._reply():
                case Event() as event:
                    self._settle(event.output)
                    yield event
                case Raised() as raised:
                    pass  # the child ends after this; what it had is sorted out then
                case _Died(cause):
                    yield from self._bury(raised.cause if raised else cause)
                    raised = None
                    self._replace(rows)
                case _FeedEnded(error):
                    feeding = False
                    if error is not None:
                        raise error
                case Job() as job:
                    self._backlog.append(job)
            self._dispatch()
        self._send(worker.NoMoreJobs())
        while not isinstance(self._reply(), RunEnded | _Died):
            pass

    def _feed(self, jobs: Jobs) -> None:
        error = None
        try:
            for job in jobs:
                self._events.put((0, job))
        except BaseException as raised:
            error = raised
        self._events.put((0, _FeedEnded(error)))

    def _dispatch(self) -> None:
        """Send what may be sent: everything, but suspects only with nothing else in flight."""
        while (self._suspects or self._backlog) and not self._alone:
            if self._suspects and self._flight:
                return
            self._alone = bool(self._suspects)
            job = (self._suspects or self._backlog).popleft()
            self._flight[job.id] = job
            self._send_job(job)

    def _send_job(self, job: Job) -> None:
        shared = np.ndarray(worker.SLAB_SAMPLES, np.float32, self._slab.buf)
        self._send(worker.JobHeader(replace(job, samples=worker.EMPTY), len(job.samples)))
        try:
            for start in range(0, len(job.samples), worker.SLAB_SAMPLES):
                piece = job.samples[start : start + worker.SLAB_SAMPLES]
                shared[: len(piece)] = piece
                self._commands.send(worker.Piece(len(piece)))
                self._commands.recv()
        except (EOFError, OSError):
            return  # as in _send

    def _settle(self, output: Output | JobFailed) -> None:
        self._fruitless = 0
        if isinstance(output, JobFailed) or output.last:
            self._flight.pop(output.job_id, None)
            self._alone = self._alone and bool(self._flight)

    def _bury(self, cause: str) -> Iterator[Event]:
        """Of the jobs that died with the child a single one is at fault; several become suspects."""
        lost = list(self._flight.values())
        self._flight.clear()
        self._alone = False
        self._fruitless += 1
        if self._fruitless > PATIENCE:
            raise DeviceLost(f"the engine died {self._fruitless} times with nothing finished in between: {cause}")
        if len(lost) == 1:
            yield Event(JobFailed(lost[0].id, cause), Readings())
        else:
            self._suspects.extend(lost)

    def _replace(self, rows: int) -> None:
        self._commands.close()
        self._slab.close()
        self.start()
        self.load()
        self._send(worker.Run(rows))


def _expect(reply: object, kind: type[R]) -> R:
    if isinstance(reply, kind):
        return reply
    if isinstance(reply, Raised):
        if reply.error is not None:
            raise reply.error
        raise RuntimeError(f"the engine raised {reply.cause}\n{reply.trace}")
    if isinstance(reply, _Died):
        raise DeviceLost(reply.cause)
    raise AssertionError(f"expected {kind.__name__}, got {reply!r}")


def _cause_of_death(exitcode: int | None) -> str:
    if exitcode is None or exitcode >= 0:
        return f"the engine's process ended unasked (exit code {exitcode})"
    name = signal.Signals(-exitcode).name
    hint = {
        "SIGKILL": ", often by the system when memory runs out",
        "SIGSEGV": ", which MLX's CPU build does when memory runs out",
        "SIGABRT": ", which Metal does when memory runs out",
    }.get(name, "")
    return f"the engine's process was killed by {name}{hint}"
