"""One run from lock to summary: it tells the view, the log, the ledger and standard output what happens."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

from mlxbatch import __version__, runner
from mlxbatch.cli import request as asked
from mlxbatch.cli.progress import View, is_terminal, make_view
from mlxbatch.cli.request import Chosen, Request
from mlxbatch.cli.summary import show_summary
from mlxbatch.cli.words import files
from mlxbatch.discover import item_id
from mlxbatch.durations import as_text
from mlxbatch.errors import Interrupted, ItemError, MlxBatchError, show
from mlxbatch.host import make_host
from mlxbatch.ledger import Ledger
from mlxbatch.lock import output_lock
from mlxbatch.metrics import RunStats
from mlxbatch.runlog import RunLog, new_run_id, result_record
from mlxbatch.runner import Watcher
from mlxbatch.types import Done, Failed, Item, Output, Planned, Readings, Result
from mlxbatch.worker import Loaded
from mlxbatch.writers.files import clear_scratch


def perform(request: Request) -> int:
    """Do it, and return the exit code: 0, or 1 where something failed."""
    found = asked.find_inputs(request)
    os.nice(request.schedule.nice)  # before there is a child, which inherits it
    stats = RunStats()
    with make_view(request.flags) as view:
        for note in asked.notes(request) if found.items else ():
            view.note(note)
        session = Session(request, view, stats)
        session.problems(found.problems)
        if found.items:
            _locked(request, found.items, session)
        elif not found.problems:
            view.note(asked.nothing_found(request, found))
    stats.stop()
    session.show()
    return 1 if stats.failed else 0


def _locked(request: Request, items: Sequence[Item], session: Session) -> None:
    """Everything that needs the output root to ourselves. The model is whole before any audio is read."""
    flags, wait = request.flags, request.schedule.wait
    with output_lock(request.output, flags.break_lock, wait, session.waiting):
        chosen = asked.choose(request.model, offline=flags.offline, say=session.view.say)
        settings = asked.run_settings(request, chosen)
        with Ledger.open(request.output) as ledger, RunLog(request.output, new_run_id()) as log:
            clear_scratch(settings.scratch)
            host = make_host(asked.engine_spec(request.profile, chosen), "child" if settings.workers else "thread")
            try:
                session.begin(log, ledger, chosen)
                session.drive(runner.transcribe(items, [host], ledger, settings, session))
            finally:
                host.close()


class Session(Watcher):
    """Where all that happens in a run passes through."""

    def __init__(self, request: Request, view: View, stats: RunStats) -> None:
        self.request, self.view, self.stats = request, view, stats
        self.warned: list[str] = []
        self._log: RunLog | None = None
        self._ledger: Ledger | None = None

    def waiting(self, holder: str) -> None:
        """Another run has the output, and ours waits for it."""
        self.view.note(f"waiting up to {as_text(self.request.schedule.wait)} for {holder}")

    def begin(self, log: RunLog, ledger: Ledger, chosen: Chosen) -> None:
        """Write down what is about to happen."""
        facts = {
            "id": log.path.stem,
            "version": __version__,
            "command": show(self.request.command),
            "profile": self.request.profile.name,
            "engine": chosen.engine,
            "model": show(chosen.name),
            "sha": chosen.sha,
            "python": platform.python_version(),
            "platform": platform.platform(),
        }
        log.start(facts)
        ledger.begin_run(log.path.stem, facts)
        self._log, self._ledger = log, ledger

    def drive(self, results: Iterator[Result]) -> None:
        """Take every result, and write down the end whatever it is."""
        outcome = "finished"
        try:
            with closing(results):  # type: ignore[type-var]
                for result in results:
                    self.result(result)
        except BaseException as error:
            outcome = f"{type(error).__name__}: {error}"
            # The error is what the user has to hear of, not that its end could not be written down.
            with suppress(MlxBatchError):
                self._end(outcome)
            raise self._told(error) from error
        self._end(outcome)

    def _told(self, error: BaseException) -> BaseException:
        """An interruption says how far the run came; other errors speak for themselves."""
        if not isinstance(error, Interrupted):
            return error
        return type(error)(f"{error.word}: {self.stats.done} done, run the same command again to go on")

    def _end(self, outcome: str) -> None:
        self.stats.stop()
        summary = {"outcome": show(outcome), **self.stats.summary()}
        assert self._log is not None
        assert self._ledger is not None
        self._log.end(summary)
        self._ledger.end_run(self._log.path.stem, summary)

    # ---- results

    def problems(self, problems: Iterable[ItemError]) -> None:
        """What could not be listed counts as failed, and the rest is done."""
        for problem in problems:
            item = Item(item_id(problem.path, "transcribe"), problem.path, problem.path)
            self.result(Failed(item, problem.stage, problem.cause))

    def result(self, result: Result) -> None:
        self.stats.add(result)
        self.view.result(result)
        if self._log is not None:
            self._log.item(result)
        if isinstance(result, Done):
            self.warned += [f"{show(result.item.source)}: {warning}" for warning in result.warnings]
        self._print({"event": "item", **result_record(result)})

    def show(self) -> None:
        """The summary: a table for people, an object for programs."""
        summary = self.stats.summary()
        log = self._log.path if self._log is not None else None
        self._print({"event": "summary", "run": log.stem if log else None, **summary})
        if not (self.request.flags.quiet or self.request.flags.as_json) and (log or self.stats.failed):
            show_summary(summary, self.warned, log, sys.stderr, terminal=is_terminal(sys.stderr))

    def _print(self, record: dict[str, Any]) -> None:
        if self.request.flags.as_json:
            print(json.dumps(record), flush=True)

    # ---- Watcher

    def found(self, items: int) -> None:
        self.view.found(items)

    def starting(self, items: int) -> None:
        self.view.say(f"loading {show(self.request.model)}")

    def loaded(self, loaded: Loaded) -> None:
        self.readings(loaded.readings)

    def planned(self, planned: Sequence[Planned]) -> None:
        self.view.planned(planned)
        if self._log is not None:
            self._log.plan(planned)

    def window(self, planned: Planned, output: Output) -> None:
        self.view.window(planned, output)

    def readings(self, readings: Readings) -> None:
        self.stats.read(readings)
        self.view.readings(readings)
        if self._log is not None:
            self._log.spans(readings)

    def left(self, items: int) -> None:
        self.stats.left = items
        limit = as_text(self.request.schedule.time_limit or 0.0)
        self.view.note(f"the time limit of {limit} is over: {files(items)} left, run the same command again to go on")

    def event(self, kind: str, facts: Mapping[str, Any]) -> None:
        if self._log is not None:
            self._log.event(kind, facts)
