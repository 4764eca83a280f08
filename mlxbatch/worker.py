"""The worker's side of EngineHost: owns the engine on one thread, in this process or a child's."""

from __future__ import annotations

import os
import queue
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory

import numpy as np
from numpy.typing import NDArray

from mlxbatch.engines import registry
from mlxbatch.engines.base import Engine, EngineSpec, Jobs
from mlxbatch.errors import MlxBatchError
from mlxbatch.types import Allowance, Job, JobFailed, Output, Readings

# Samples of one piece of a recording on its way to a child: 4 MiB, so that it fits the 64 MB of shared memory that a
# container has by default, however long the recording.
SLAB_SAMPLES = 1 << 20
EMPTY: NDArray[np.float32] = np.zeros(0, np.float32)


@dataclass(frozen=True, slots=True)
class AskNeeds:
    seconds: list[float]


@dataclass(frozen=True, slots=True)
class Stop:
    pass


@dataclass(frozen=True, slots=True)
class Run:
    """Run jobs within an allowance. `jobs` is None on the way to a child, which gets them one by one."""

    allowance: Allowance
    jobs: Jobs | None = None


@dataclass(frozen=True, slots=True)
class JobHeader:
    """A job without its samples, and how many follow in pieces."""

    job: Job
    count: int


@dataclass(frozen=True, slots=True)
class Piece:
    """`count` samples lie in the slab; the child answers when it has copied them."""

    count: int


@dataclass(frozen=True, slots=True)
class NoMoreJobs:
    pass


Command = AskNeeds | Run | Stop
# Seconds between two beats of a worker.
BEAT = 0.5


@dataclass(frozen=True, slots=True)
class Loaded:
    """The engine is there: bytes of its weights, and of what may be held on the device in all."""

    weights: int
    memory_limit: int
    sample_rate: int
    readings: Readings


@dataclass(frozen=True, slots=True)
class Needs:
    """Engine.need of each length that was asked for, and Engine.working with the longest of them: bytes."""

    sizes: list[int]
    working: int


@dataclass(frozen=True, slots=True)
class Event:
    output: Output | JobFailed
    readings: Readings


@dataclass(frozen=True, slots=True)
class Beat:
    """The worker's process lives; whether it comes on is in the readings."""

    readings: Readings


@dataclass(frozen=True, slots=True)
class RunEnded:
    readings: Readings


@dataclass(frozen=True, slots=True)
class Raised:
    """What the engine raised: one of ours as it is, anything else as text."""

    error: MlxBatchError | None
    cause: str
    trace: str


Reply = Loaded | Needs | Event | Beat | RunEnded | Raised


class Allowed:
    """The allowance in force: set by whoever hears of it, asked by the engine at each refill (engines.base.Admit)."""

    def __init__(self) -> None:
        self.now = Allowance(1)
        self._reclaimed = 0

    def admit(self, live: int, reclaim: Callable[[], None]) -> int:
        """How many rows may be live; reclaims first where that was asked for."""
        now = self.now
        if now.reclaims > self._reclaimed:
            self._reclaimed = now.reclaims
            reclaim()
        return max(1, min(live, now.rows) if now.hold else now.rows)


def work(
    spec: EngineSpec, receive: Callable[[], Command], send: Callable[[Reply], None], allowed: Allowed | None = None
) -> None:
    """Build the engine and serve commands until Stop, or until it raises, which is the last reply."""
    try:
        engine = registry.build(spec)
        try:
            send(Loaded(engine.weights(), engine.memory_limit(), engine.sample_rate, engine.readings()))
            with _beating(engine, send):
                _serve(engine, receive, send, allowed or Allowed())
        finally:
            engine.close()
    except Exception as error:
        send(_raised(error))


@contextmanager
def _beating(engine: Engine, send: Callable[[Reply], None]) -> Iterator[None]:
    """Beats from a thread of its own: they come while the engine is at a long piece of work, and when it hangs."""
    ended = threading.Event()

    def beat() -> None:
        with suppress(Unheard):
            try:
                while not ended.wait(BEAT):
                    send(Beat(engine.pulse()))
            except Exception as error:
                # Silence would be taken for a stall, some day.
                send(_raised(error))

    thread = threading.Thread(target=beat, name="beat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class Unheard(BaseException):
    """Nobody takes what a worker says any more. No Exception, which would be the engine's own."""


def _raised(error: BaseException) -> Raised:
    ours = error if isinstance(error, MlxBatchError) else None
    cause = str(error) if ours else f"{type(error).__name__}: {error}"
    return Raised(ours, cause, "".join(traceback.format_exception(error)))


def _serve(engine: Engine, receive: Callable[[], Command], send: Callable[[Reply], None], allowed: Allowed) -> None:
    while True:
        command = receive()
        match command:
            case AskNeeds(seconds):
                sizes = [engine.need(length) for length in seconds]
                send(Needs(sizes, engine.working(max(seconds, default=0.0))))
            case Run(jobs=jobs):
                assert jobs is not None
                for output in engine.run(jobs, lambda live: allowed.admit(live, engine.reclaim)):
                    send(Event(output, engine.readings()))
                send(RunEnded(engine.readings()))
            case Stop():
                return


class ArrivingJobs:
    """The child's jobs (Jobs), as they come through the pipe."""

    def __init__(self) -> None:
        self._queue: queue.Queue[Job | None] = queue.Queue()
        self._ended = False

    def put(self, job: Job | None) -> None:
        """None says that no job follows."""
        self._queue.put(job)

    def __iter__(self) -> Iterator[Job]:
        return self

    def __next__(self) -> Job:
        job = None if self._ended else self._queue.get()
        if job is None:
            self._ended = True
            raise StopIteration
        return job

    def ready(self) -> bool:
        return self._ended or not self._queue.empty()


def child(spec: EngineSpec, commands: Connection, replies: Connection, slab: str) -> None:
    """What a child process runs: a thread takes what the parent sends, this one keeps the engine."""
    # Ctrl-C and a closed terminal reach the whole process group; the parent decides what becomes of the child.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    arrived: queue.Queue[Command] = queue.Queue()
    sending = threading.Lock()

    def send(reply: Reply) -> None:
        with sending:
            try:
                replies.send(reply)
            except OSError:
                os._exit(1)  # the parent is gone, as in _take

    allowed = Allowed()
    arguments = (commands, arrived, SharedMemory(slab), send, allowed)
    threading.Thread(target=_take, args=arguments, name="take", daemon=True).start()
    work(spec, arrived.get, send, allowed)
    # At once: taking MLX down can hang or crash, and the parent waits for the end.
    os._exit(0)


def _take(
    commands: Connection,
    arrived: queue.Queue[Command],
    slab: SharedMemory,
    send: Callable[[Reply], None],
    allowed: Allowed,
) -> None:
    jobs = ArrivingJobs()
    try:
        while True:
            match commands.recv():
                case Run(allowance):
                    jobs, allowed.now = ArrivingJobs(), allowance
                    arrived.put(Run(allowance, jobs))
                case Allowance() as allowance:
                    allowed.now = allowance
                case JobHeader(job, count):
                    jobs.put(replace(job, samples=_samples(commands, slab, count)))
                case NoMoreJobs():
                    jobs.put(None)
                case command:
                    arrived.put(command)
    except (EOFError, OSError):
        # The parent is gone, killed perhaps: nobody is left to work for, whatever the engine is in the middle of.
        os._exit(1)
    except BaseException as error:
        # No memory for the samples, say. The parent waits for an answer that nobody else would give.
        send(_raised(error))
        os._exit(1)


def _samples(commands: Connection, slab: SharedMemory, count: int) -> NDArray[np.float32]:
    samples = np.empty(count, np.float32)
    shared = np.ndarray(SLAB_SAMPLES, np.float32, slab.buf)
    filled = 0
    while filled < count:
        piece: Piece = commands.recv()
        samples[filled : filled + piece.count] = shared[: piece.count]
        filled += piece.count
        commands.send(None)
    return samples
