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
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.shared_memory import SharedMemory
from typing import Literal, TypeVar

import numpy as np

from mlxbatch import worker
from mlxbatch.engines.base import EngineSpec, Jobs
from mlxbatch.errors import DeviceLost, MlxBatchError, SetupError
from mlxbatch.flight import Flight
from mlxbatch.signals import held_signals
from mlxbatch.types import Job, Readings
from mlxbatch.worker import Event, Loaded, Needs, Raised, Reply, RunEnded

Kind = Literal["child", "thread"]
R = TypeVar("R")

# Seconds that `close` waits for each thread: longer only when it is in the middle of something that nobody awaits.
GRACE = 1.0


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
    def run(self, jobs: Jobs, rows: int) -> Generator[Event, None, None]:
        """Run the jobs with at most `rows` live at once. A job that was begun anew repeats its windows.

        Closing the generator early closes the host, and so does an error: what still runs belongs to nobody.
        """

    @abstractmethod
    def interrupt(self, error: MlxBatchError) -> None:
        """Have the run that is going on raise this, whatever the engine is in the middle of. From any thread."""

    @abstractmethod
    def close(self) -> None:
        """Stop at once, whatever runs. More than once is fine."""


def make_host(spec: EngineSpec, kind: Kind) -> EngineHost:
    return ChildHost(spec) if kind == "child" else ThreadHost(spec)


class _Closed(BaseException):
    """Ends an engine's thread from within: nobody takes what it says. No Exception, which would be the engine's own."""


class ThreadHost(EngineHost):
    """The engine on a thread of this process, for debugging and serial runs: it pulls the jobs itself.

    A thread cannot be replaced: what the engine raises ends the run.
    """

    def __init__(self, spec: EngineSpec) -> None:
        super().__init__(spec)
        self._commands: queue.Queue[worker.Command] = queue.Queue()
        self._replies: queue.Queue[Reply] = queue.Queue()
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self._closed = False

    def _work(self) -> None:
        with suppress(_Closed):
            worker.work(self.spec, self._commands.get, self._say)

    def _say(self, reply: Reply) -> None:
        if self._closed:
            raise _Closed
        self._replies.put(reply)

    def start(self) -> None:
        self._thread.start()

    def load(self) -> Loaded:
        return _expect(self._replies.get(), Loaded)

    def needs(self, seconds: Sequence[float]) -> list[int]:
        self._commands.put(worker.AskNeeds(list(seconds)))
        return _expect(self._replies.get(), Needs).sizes

    def run(self, jobs: Jobs, rows: int) -> Generator[Event, None, None]:
        self._commands.put(worker.Run(rows, jobs))
        try:
            while not isinstance(reply := self._replies.get(), RunEnded):
                yield _expect(reply, Event)
        except BaseException:
            self.close()
            raise

    def interrupt(self, error: MlxBatchError) -> None:
        self._replies.put(Raised(error, str(error), ""))

    def close(self) -> None:
        self._closed = True
        self._commands.put(worker.Stop())
        if self._thread.is_alive():
            self._thread.join(timeout=GRACE)


@dataclass(frozen=True, slots=True)
class _Died:
    cause: str


@dataclass(frozen=True, slots=True)
class _FeedEnded:
    error: BaseException | None = None


_Incoming = Reply | _Died | Job | _FeedEnded


class ChildHost(EngineHost):
    """The engine in a spawned child. When the child dies it is replaced, and the jobs it had are tried one by one.

    So the job at fault is found, fails with the cause, and the others are done. All sending happens on the caller's
    thread; one thread takes the child's replies, one pulls jobs, and both put what they get into one queue.
    """

    def __init__(self, spec: EngineSpec) -> None:
        super().__init__(spec)
        self._events: queue.Queue[tuple[int, _Incoming]] = queue.Queue()
        self._held: deque[tuple[int, Job | _FeedEnded]] = deque()
        # Whose events count: the children's generation from 1 up, the feeds' number from -1 down.
        self._generation = self._feed_number = 0
        self._threads: list[threading.Thread] = []

    # ---- the child's life

    @held_signals()
    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        try:
            self._slab = SharedMemory(create=True, size=worker.SLAB_SAMPLES * 4)
        except OSError as error:
            raise SetupError(f"no shared memory for the engine's process: {error}") from error
        self._commands, child_commands = context.Pipe()
        replies, child_replies = context.Pipe(duplex=False)
        arguments = (self.spec, child_commands, child_replies, self._slab.name)
        self._process = context.Process(target=worker.child, args=arguments, name="mlxbatch-engine", daemon=True)
        try:
            self._process.start()
        except OSError as error:
            self._forget_name()
            raise SetupError(f"the engine's process cannot be started: {error}") from error
        # Only the child holds these ends now, so its death is an end of file here.
        child_commands.close()
        child_replies.close()
        self._generation += 1
        self._spawn("receive", self._receive, self._process, replies, self._generation)

    def _spawn(self, name: str, target: Callable[..., None], *arguments: object) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads.append(threading.Thread(target=target, args=arguments, name=name, daemon=True))
        self._threads[-1].start()

    def load(self) -> Loaded:
        try:
            return _expect(self._answer(), Loaded)
        finally:
            self._forget_name()

    def needs(self, seconds: Sequence[float]) -> list[int]:
        self._send(worker.AskNeeds(list(seconds)))
        return _expect(self._answer(), Needs).sizes

    def interrupt(self, error: MlxBatchError) -> None:
        self._events.put((self._feed_number, _FeedEnded(error)))

    def close(self) -> None:
        if self._generation == 0:
            return
        self._generation += 1
        self._feed_number -= 1
        self._process.kill()
        self._process.join()
        self._commands.close()
        self._slab.close()
        self._forget_name()
        for thread in self._threads:
            thread.join(timeout=GRACE)

    def _forget_name(self) -> None:
        """Both sides have the slab mapped: without a name it cannot outlive them, even when both are killed."""
        with suppress(FileNotFoundError):
            self._slab.unlink()

    def _receive(self, process: BaseProcess, replies: Connection, generation: int) -> None:
        cause = None
        while True:
            try:
                self._events.put((generation, replies.recv()))
            except (EOFError, OSError):
                break
            except Exception as error:
                # To unpickle an error runs that error's own code. Silence from here on would be a run that hangs.
                cause = f"the engine's process said what cannot be read: {error!r}"
                process.kill()
                break
        replies.close()
        process.join()
        self._events.put((generation, _Died(cause or _cause_of_death(process.exitcode))))

    def _reply(self) -> _Incoming:
        """The next event, without those of children that were replaced and of feeds that are over."""
        while True:
            source, event = self._held.popleft() if self._held else self._events.get()
            if source in (self._generation, self._feed_number):
                if isinstance(event, _Died):
                    # It stays dead until it is replaced: whoever asks it next shall not wait for an answer.
                    self._events.put((source, event))
                return event

    def _answer(self) -> Reply | _Died:
        """What the child says next; what the feed says meanwhile, while a child is replaced, waits in its order."""
        held: list[tuple[int, Job | _FeedEnded]] = []
        while isinstance(event := self._reply(), Job | _FeedEnded):
            held.append((self._feed_number, event))
        self._held.extend(held)
        return event

    def _send(self, message: object) -> None:
        # A dead child's end comes as an event, in order with what it still said.
        with suppress(OSError):
            self._commands.send(message)

    # ---- jobs

    def run(self, jobs: Jobs, rows: int) -> Generator[Event, None, None]:
        try:
            yield from self._run(jobs, rows)
        except BaseException:
            self.close()
            raise

    def _run(self, jobs: Jobs, rows: int) -> Generator[Event, None, None]:
        self._flight = Flight()
        self._feed_number -= 1
        self._feeding = True
        self._spawn("feed", self._feed, jobs, self._feed_number)
        self._begin(rows)
        raised: Raised | None = None
        while True:
            match self._reply():
                case Event() as event:
                    self._flight.settle(event.output)
                    yield event
                case Raised() as raised:
                    pass  # the child ends after this; what it had is sorted out then
                case _Died(cause):
                    failed = self._flight.crash(raised.cause if raised else cause)
                    raised = None
                    if failed is not None:
                        yield Event(failed, Readings())
                    if not self._feeding and not len(self._flight):
                        return
                    self._replace(rows)
                case RunEnded():
                    return
                case _FeedEnded(error):
                    if error is not None:
                        raise error
                    self._feeding = False
                case Job() as job:
                    self._flight.add(job)
                    del job  # hours of samples, not to be held until the next comes
            if raised is None:
                self._dispatch()

    def _begin(self, rows: int) -> None:
        self._told = False
        self._send(worker.Run(rows))

    def _feed(self, jobs: Jobs, number: int) -> None:
        error = None
        try:
            for job in jobs:
                self._events.put((number, job))
                del job  # as in _run
        except BaseException as raised:
            error = raised
        self._events.put((number, _FeedEnded(error)))

    def _dispatch(self) -> None:
        """Send what may be sent, and say so once no more will follow: an engine saves nothing up for later then."""
        while (job := self._flight.take_off()) is not None:
            if not self._send_job(job):
                self._flight.call_back(job)
                return
        if not (self._feeding or self._flight.unsent or self._told):
            self._told = True
            self._send(worker.NoMoreJobs())

    def _send_job(self, job: Job) -> bool:
        """False where the child was dead before it could begin to take the job, and so not by the job's fault."""
        try:
            self._commands.send(worker.JobHeader(replace(job, samples=worker.EMPTY), len(job.samples)))
        except OSError:
            return False
        with suppress(EOFError, OSError):  # as in _send
            for start in range(0, len(job.samples), worker.SLAB_SAMPLES):
                piece = job.samples[start : start + worker.SLAB_SAMPLES]
                # No view outlives this line: Ctrl-C while waiting would leave a slab that cannot be closed.
                np.ndarray(len(piece), np.float32, self._slab.buf)[:] = piece
                self._commands.send(worker.Piece(len(piece)))
                self._commands.recv()
        return True

    def _replace(self, rows: int) -> None:
        """Another child; one that dies while it loads is as good as one that dies at work."""
        while True:
            self._commands.close()
            self._slab.close()
            self.start()
            try:
                self.load()
            except DeviceLost as error:
                self._flight.count_death(str(error))
            else:
                return self._begin(rows)


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
