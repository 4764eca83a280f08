"""The engine on a thread of this process."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Sequence
from contextlib import suppress

from mlxbatch import worker
from mlxbatch.engines.base import EngineSpec, Jobs
from mlxbatch.host.base import GRACE, EngineHost, Happening, expect
from mlxbatch.types import Allowance
from mlxbatch.worker import Allowed, Beat, Event, Loaded, Needs, Reply, RunEnded, Unheard


class ThreadHost(EngineHost):
    """The engine on a thread of this process, for debugging and serial runs: it pulls the jobs itself.

    A thread cannot be replaced: what the engine raises ends the run, and a leak stays.
    """

    def __init__(self, spec: EngineSpec) -> None:
        super().__init__(spec)
        self._commands: queue.Queue[worker.Command] = queue.Queue()
        self._replies: queue.Queue[Reply] = queue.Queue()
        self._allowed = Allowed()
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self._closed = False

    def _work(self) -> None:
        with suppress(Unheard):
            worker.work(self.spec, self._commands.get, self._say, self._allowed)

    def _say(self, reply: Reply) -> None:
        if self._closed:
            raise Unheard
        self._replies.put(reply)

    def start(self) -> None:
        self._thread.start()

    def load(self) -> Loaded:
        return expect(self._answer(), Loaded)

    def needs(self, seconds: Sequence[float]) -> Needs:
        self._commands.put(worker.AskNeeds(list(seconds)))
        return expect(self._answer(), Needs)

    def _answer(self) -> Reply:
        while isinstance(reply := self._replies.get(), Beat):
            pass
        return reply

    def run(self, jobs: Jobs, allowance: Allowance) -> Generator[Happening, None, None]:
        self.allow(allowance)
        self._commands.put(worker.Run(allowance, jobs))
        try:
            while not isinstance(reply := self._replies.get(), RunEnded):
                yield reply if isinstance(reply, Beat) else expect(reply, Event)
        except BaseException:
            self.close()
            raise

    def allow(self, allowance: Allowance) -> None:
        self._allowed.now = allowance

    def renew(self) -> None:
        pass

    def close(self) -> None:
        self._closed = True
        self._commands.put(worker.Stop())
        if self._thread.is_alive():
            self._thread.join(timeout=GRACE)
