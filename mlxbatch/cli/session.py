"""One run from lock to summary: it tells the view, the log, the ledger and standard output what happens."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from mlxbatch import __version__, runner
from mlxbatch.cli import request as asked
from mlxbatch.cli.ending import Ending
from mlxbatch.cli.progress import View, is_terminal, make_view
from mlxbatch.cli.request import Chosen, Request
from mlxbatch.cli.summary import end_line, show_summary
from mlxbatch.discover import item_id
from mlxbatch.durations import as_text
from mlxbatch.errors import Interrupted, ItemError, MlxBatchError, show
from mlxbatch.host import EngineHost, Kind, make_host
from mlxbatch.ledger import Ledger
from mlxbatch.ledger_file import FILE
from mlxbatch.lock import output_lock
from mlxbatch.metrics import RunStats
from mlxbatch.runlog import RunLog, new_run_id, prune, result_record, versions
from mlxbatch.runner import Watcher
from mlxbatch.state import FOLDER
from mlxbatch.types import Done, Failed, Item, Output, Planned, Readings, Result
from mlxbatch.words import files, size
from mlxbatch.worker import Loaded
from mlxbatch.writers.files import clear_scratch


def perform(request: Request, ending: Ending) -> int:
    """Do it, and return the exit code: 0, or 1 where something failed. What is known of the run goes into `ending`."""
    ending.stats = stats = RunStats()
    ending.info = {"profile": request.settings.name, "model": show(request.model)}
    found = asked.find_inputs(request)
    stats.found, stats.not_taken = len(found.items) + len(found.problems), found.by_reason()
    os.nice(request.schedule.nice)  # before there is a child, which inherits it
    with make_view(request.flags, ending.log) as view:
        for note in asked.notes(request) if found.items else ():
            view.note(note)
        session = Session(request, view, stats)
        session.problems(found.problems)
        if found.items:
            _locked(request, found.items, session, ending)
        elif not found.problems:
            view.note(asked.nothing_found(request, found))
            _nothing(request, session)
    stats.stop()
    session.show()
    return 1 if stats.failed else 0


def _locked(request: Request, items: Sequence[Item], session: Session, ending: Ending) -> None:
    """Everything that needs the output root to ourselves. The model is whole before any audio is read."""
    with _recorded(request, session) as (ledger, log):
        try:
            chosen = asked.choose_all(request, offline=request.flags.offline, say=session.view.say)
            for note in asked.suits(request, chosen, items):
                session.view.note(note)
        except BaseException as error:
            # A night without its model is a run, too: whoever looks in the morning has to find it.
            session.begin(log, ledger, _no_model(request))
            session.fail(error)
            raise
        ending.info |= {"engine": chosen[0].engine, "model_sha": chosen[0].sha}
        settings = asked.run_settings(request, chosen)
        clear_scratch(settings.scratch)
        session.begin(log, ledger, chosen[0])
        hosts = [_host(request, one) for one in chosen]
        try:
            session.drive(runner.transcribe(items, hosts, ledger, settings, session))
        finally:
            for host in hosts:
                host.close()
            session.view.line("the engine is closed", "debug")


def _nothing(request: Request, session: Session) -> None:
    """A run without items, written down where there were runs before: what they found may have gone missing."""
    if not (request.output / FOLDER / FILE).exists():
        return
    with _recorded(request, session) as (ledger, log):
        session.begin(log, ledger, _no_model(request))
        session.drive(iter(()))


@contextmanager
def _recorded(request: Request, session: Session) -> Iterator[tuple[Ledger, RunLog]]:
    """The output root to ourselves, its ledger, and a log of this run."""
    with (
        output_lock(request.output, request.flags.break_lock, request.schedule.wait, session.waiting),
        Ledger.open(request.output) as ledger,
        _run_log(request, session.view) as log,
    ):
        yield ledger, log


def _no_model(request: Request) -> Chosen:
    """The model asked for, of which no more than its name is known."""
    return Chosen("", request.model, "")


@contextmanager
def _run_log(request: Request, view: View) -> Iterator[RunLog]:
    """This run's log; once it is closed, the oldest of the others are removed."""
    with RunLog(request.output, new_run_id()) as log:
        try:
            yield log
        finally:
            for problem in prune(request.profile.state.keep_runs, log.path):
                view.note(f"an old log cannot be removed: {problem}")


def _host(request: Request, chosen: Chosen) -> EngineHost:
    profile = request.profile
    # Only a process gives all of its memory back, which a model that takes over has to have.
    kind: Kind = "child" if profile.pipeline.workers or profile.governor.fallback_model else "thread"
    return make_host(asked.engine_spec(request, chosen), kind, profile.governor.stall_timeout)


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
            "engine": chosen.engine,
            "model": show(chosen.name),
            "python": platform.python_version(),
            "platform": platform.platform(),
            "versions": versions(),
            "found": self.stats.found,
            **asked.conditions(self.request, chosen),
        }
        log.start(facts)
        for failed in self.stats.failures:  # what could not be listed came before there was a log
            log.item(failed)
        ledger.begin_run(log.path.stem, facts)
        self._log, self._ledger = log, ledger

    def drive(self, results: Iterator[Result]) -> None:
        """Take every result, and write down the end whatever it is."""
        try:
            for result in results:
                self.result(result)
        except BaseException as error:
            self.fail(error)
            raise self._told(error) from error
        finally:
            if isinstance(results, Generator):
                results.close()
        self._end("finished")

    def fail(self, error: BaseException) -> None:
        """The run ends by an error; that is what the user has to hear of, not that its end could not be written."""
        with suppress(MlxBatchError):
            self._end(f"{type(error).__name__}: {error}")

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
        """The summary: a line for logs, a table for people, an object for programs."""
        summary = self.stats.summary()
        log = self._log.path if self._log is not None else None
        self._print({"event": "summary", "run": log.stem if log else None, **summary})
        if log or self.stats.failed:
            self.view.line(end_line(summary), passing=True)
            if self.view.shows("info") and not self.request.flags.as_json:
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
        self.view.line(f"loaded: weights {size(loaded.weights)}, memory limit {size(loaded.memory_limit)}", "debug")
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

    def given_up(self, items: int) -> None:
        if items:
            text = f"{files(items)} could not be finished within the time limit: the next run begins them last"
            self.view.note(f"{text}; a longer --time-limit would let them end")

    def left(self, items: int) -> None:
        limit = as_text(self.request.schedule.time_limit or 0.0)
        self.view.note(f"the time limit of {limit} is over: {files(items)} left, run the same command again to go on")

    def event(self, kind: str, facts: Mapping[str, Any]) -> None:
        self.stats.event(kind, facts)
        self.view.event(kind, facts)
        if self._log is not None:
            self._log.event(kind, facts)
