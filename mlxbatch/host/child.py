"""The engine in a spawned child, which is replaced when it dies or hangs."""

from __future__ import annotations

import multiprocessing
import queue
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.shared_memory import SharedMemory

import numpy as np
import psutil

from mlxbatch import worker
from mlxbatch.engines.base import EngineSpec, Jobs
from mlxbatch.errors import DeviceLost, SetupError
from mlxbatch.flight import Flight
from mlxbatch.host.base import GRACE, STALL_TIMEOUT, Changed, Died, EngineHost, Happening, expect
from mlxbatch.signals import held_signals
from mlxbatch.types import Allowance, Job, Readings
from mlxbatch.watchdog import Watchdog
from mlxbatch.worker import Beat, Event, Loaded, Needs, Raised, Reply, RunEnded

# Seconds between two looks at whether the child comes on.
TICK = 0.5


@dataclass(frozen=True, slots=True)
class _FeedEnded:
    error: BaseException | None = None


_Incoming = Reply | Died | Job | _FeedEnded


class ChildHost(EngineHost):
    """The engine in a spawned child. When the child dies it is replaced, and the jobs it had are bisected.

    So the job at fault is found, fails with the cause, and the others are done. A child that makes no progress for
    `stall_timeout` seconds is as good as dead. All sending happens on the caller's thread; one thread takes the child's
    replies, one pulls jobs, and both put what they get into one queue.
    """

    def __init__(self, spec: EngineSpec, stall_timeout: float = STALL_TIMEOUT) -> None:
        super().__init__(spec)
        self._watchdog = Watchdog(stall_timeout)
        self._allowance = Allowance(1)
        self._renewing = False
        self._raised: Raised | None = None
        self._progress: Callable[[], float] = self._same
        self._events: queue.Queue[tuple[int, _Incoming]] = queue.Queue()
        self._held: deque[tuple[int, Job | _FeedEnded]] = deque()
        # Whose events count: the children's generation from 1 up, the feeds' number from -1 down.
        self._generation = self._feed_number = 0
        self._threads: list[threading.Thread] = []

    # ---- the child's life

    @held_signals()
    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        with ExitStack() as undo:
            try:
                slab = SharedMemory(create=True, size=worker.SLAB_SAMPLES * 4)
            except OSError as error:
                raise SetupError(f"no shared memory for the engine's process: {error}") from error
            undo.callback(_drop, slab)
            ends = (*context.Pipe(), *reversed(context.Pipe(duplex=False)))
            for end in ends:
                undo.callback(end.close)
            commands, child_commands, child_replies, replies = ends
            arguments = (self.spec, child_commands, child_replies, slab.name)
            process = context.Process(target=worker.child, args=arguments, name="mlxbatch-engine", daemon=True)
            try:
                process.start()
            except OSError as error:
                raise SetupError(f"the engine's process cannot be started: {error}") from error
            undo.pop_all()
        # Only the child holds these ends now, so its death is an end of file here.
        child_commands.close()
        child_replies.close()
        self._slab, self._commands, self._process = slab, commands, process
        self._generation += 1
        self._stalled = ""
        self._watchdog.begin()
        self._spawn("receive", self._receive, process, replies, self._generation)

    def _spawn(self, name: str, target: Callable[..., None], *arguments: object) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads.append(threading.Thread(target=target, args=arguments, name=name, daemon=True))
        self._threads[-1].start()

    def load(self) -> Loaded:
        # A large model on a slow disk takes long, and counts nothing: it comes on as long as it uses the processor.
        self._progress = self._cpu_seconds
        self._watchdog.begin()
        try:
            return expect(self._answer(), Loaded)
        finally:
            self._progress = self._same
            self._watchdog.begin()
            self._forget_name()

    def _cpu_seconds(self) -> float:
        try:
            times = psutil.Process(self._process.pid).cpu_times()
        except psutil.Error:  # it ends just now; its end comes as an event
            return self._watchdog.seen
        return float(times.user + times.system)

    def _same(self) -> float:
        """Progress that only beats tell of."""
        return self._watchdog.seen

    def needs(self, seconds: Sequence[float]) -> Needs:
        self._watchdog.begin()
        self._send(worker.AskNeeds(list(seconds)))
        return expect(self._answer(), Needs)

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
        self._events.put((generation, Died(cause or self._stalled or _cause_of_death(process.exitcode))))

    def _reply(self) -> _Incoming:
        """The next event, without those of children that were replaced and of feeds that are over."""
        while True:
            source, event = self._held.popleft() if self._held else self._next()
            if source in (self._generation, self._feed_number):
                if isinstance(event, Beat | Event):
                    self._watchdog.see(event.readings.progress)
                    self._watch()
                if isinstance(event, Died):
                    # It stays dead until it is replaced: whoever asks it next shall not wait for an answer.
                    self._events.put((source, event))
                return event

    def _next(self) -> tuple[int, _Incoming]:
        while True:
            with suppress(queue.Empty):
                return self._events.get(timeout=TICK)
            self._watch()

    def _watch(self) -> None:
        """End a child that does not come on."""
        self._watchdog.see(self._progress())
        if self._watchdog.stalled:
            self._stalled = f"the engine made no progress for {self._watchdog.patience:g} s"
            self._process.kill()  # stopped ones, too; what follows comes as its end

    def _answer(self) -> Reply | Died:
        """What the child says next; what the feed says meanwhile, while a child is replaced, waits in its order."""
        held: list[tuple[int, Job | _FeedEnded]] = []
        while isinstance(event := self._reply(), Job | _FeedEnded | Beat):
            if not isinstance(event, Beat):
                held.append((self._feed_number, event))
        self._held.extend(held)
        return event

    def _send(self, message: object) -> None:
        # A dead child's end comes as an event, in order with what it still said.
        with suppress(OSError):
            self._commands.send(message)

    # ---- jobs

    def run(self, jobs: Jobs, allowance: Allowance) -> Generator[Happening, None, None]:
        self._allowance = allowance
        try:
            yield from self._run(jobs)
        except BaseException:
            self.close()
            raise

    def allow(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._send(allowance)

    def renew(self) -> None:
        self._renewing = True

    def _run(self, jobs: Jobs) -> Generator[Happening, None, None]:
        self._flight = Flight()
        self._feed_number -= 1
        self._feeding = True
        self._spawn("feed", self._feed, jobs, self._feed_number)
        self._begin()
        while True:
            match self._reply():
                case Event() as event:
                    self._flight.settle(event.output)
                    yield event
                case Beat() as beat:
                    yield beat
                case Raised() as raised:
                    self._raised = raised  # the child ends after this; what it had is sorted out then
                case Died(cause):
                    yield from self._bury(cause)
                    if self._ended:
                        return
                    self._replace()
                case RunEnded():
                    return
                case _FeedEnded(error):
                    if error is not None:
                        raise error
                    self._feeding = False
                case Job() as job:
                    self._flight.add(job)
                    del job  # hours of samples, not to be held until the next comes
            yield from self._go_on()

    @property
    def _ended(self) -> bool:
        return not self._feeding and not len(self._flight)

    def _go_on(self) -> Generator[Happening, None, None]:
        """Send what may be sent; take a new child where that was asked for and nobody loses by it."""
        if self._raised is not None:
            return
        if self._renewing and not self._flight.flying:
            self._renewing = False
            if not self._ended:
                self._process.kill()
                self._replace()
                yield Changed("renewed")
        if not self._renewing:
            self._dispatch()
        if not self._flight.flying:
            self._watchdog.begin()  # it has nothing to do, and cannot stall

    def _bury(self, cause: str) -> Generator[Happening, None, None]:
        """The child is dead: say so, and which job is to blame, where that is known."""
        cause = self._raised.cause if self._raised else cause
        self._raised = None
        yield Changed("stalled" if self._stalled else "died", cause)
        failed = self._flight.crash(cause, stalled=bool(self._stalled))
        if failed is not None:
            yield Event(failed, Readings())

    def _begin(self) -> None:
        self._told = False
        self._watchdog.begin()
        self._send(worker.Run(self._allowance))

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
        if self._flight.flying == 1:
            self._watchdog.begin()  # it had nothing to do until now
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
                self._await_copy()
        return True

    def _await_copy(self) -> None:
        while not self._commands.poll(TICK):
            self._watch()
        self._commands.recv()

    def _replace(self) -> None:
        """Another child; one that dies while it loads is as good as one that dies at work."""
        self._renewing = False
        while True:
            self._commands.close()
            self._slab.close()
            self.start()
            try:
                self.load()
            except DeviceLost as error:
                self._flight.count_death(str(error))
            else:
                return self._begin()


def _drop(slab: SharedMemory) -> None:
    slab.close()
    slab.unlink()


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
