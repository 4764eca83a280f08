"""The one place where a run is put together: decide, probe, plan, decode ahead, infer, join, write, remember."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from mlxbatch import budget
from mlxbatch.disk import Space, forecast
from mlxbatch.errors import DeviceLost
from mlxbatch.feed import Feed, Prepared
from mlxbatch.governor import Room
from mlxbatch.host import Changed, EngineHost, Happening
from mlxbatch.join import Join
from mlxbatch.ledger import Decision, Fresh, Infer, Ledger, Quarantined, Render
from mlxbatch.ledger_rows import key_of
from mlxbatch.machine import read_machine
from mlxbatch.overseer import Overseer, TakeOver
from mlxbatch.pacing import Pace
from mlxbatch.plan import Countdown, plan
from mlxbatch.reading import Reader, attempt
from mlxbatch.run_settings import ModelKey as ModelKey
from mlxbatch.run_settings import RunSettings as RunSettings
from mlxbatch.types import Done, Failed, Item, JobFailed, Output, Planned, Probed, Result, Skipped, Transcript
from mlxbatch.watcher import Watcher as Watcher
from mlxbatch.worker import Event, Loaded
from mlxbatch.writers import writers
from mlxbatch.writers.files import output_path, write_outputs

# Headers that are read under one mark in the ledger: a mark costs a write, and one of so many is soon found.
PROBED_AT_ONCE = 64


def transcribe(
    items: Sequence[Item], hosts: Sequence[EngineHost], ledger: Ledger, settings: RunSettings, watcher: Watcher
) -> Iterator[Result]:
    """Every item once as a Result, in the order in which they are finished.

    The ledger is written on the caller's thread, after the outputs are in place and before the Result is yielded.
    Closing the generator early leaves no thread and no child behind. SetupError where nothing can be written. Past
    `stop_at` the items that are left have no Result, and the watcher is told how many they are.
    """
    run = _Run(hosts, ledger, settings, watcher)
    watcher.found(len(items))
    todo: list[Item] = []
    for item in items:
        if run.pace.over():
            run.left += 1
            continue
        match decide(item, ledger, settings):
            case Fresh(why):
                yield Skipped(item, why)
            case Quarantined(why):
                yield Skipped(item, why, quarantined=True)
            case Render(transcript):
                run.space.watch()
                yield run.rerendered(item, transcript)
            case Infer():
                todo.append(item)
    if todo:
        yield from run.infer(todo)
    if run.left:
        watcher.left(run.left)


def decide(item: Item, ledger: Ledger | None, settings: RunSettings) -> Decision:
    """What is to be done for an item; without a ledger, as before a first run, everything is new."""
    if settings.force:
        return Infer("--force")
    if ledger is None:
        return Infer("new")
    return ledger.decide(
        item,
        settings.stored_keys_for(item),
        settings.rendering_key_for(item),
        _outputs(item, settings),
        retry_quarantined=settings.retry_quarantined,
    )


def _outputs(item: Item, settings: RunSettings) -> list[Path]:
    return [output_path(settings.output, item.relpath, name) for name in settings.formats]


class _Run:
    """One run's moving parts."""

    def __init__(self, hosts: Sequence[EngineHost], ledger: Ledger, settings: RunSettings, watcher: Watcher) -> None:
        self.hosts, self.ledger, self.settings, self.watcher = hosts, ledger, settings, watcher
        self._reader = Reader(ledger, settings)
        self._writers = writers(settings.lines)
        self.space = Space(settings.output, settings.min_free)
        self.pace = Pace(settings.stop_at, settings.max_load)
        self.left = 0  # items that have no result yet and are to have one
        self._number = 0  # of the host that works
        self._deaths, self._given_up = ledger.suspects(), ledger.unfinished()
        self._joins: dict[str, Join] = {}  # by item
        self._settled: set[str] = set()
        self._deadly: list[Failed] = []  # since a recording was done last

    @property
    def _model(self) -> ModelKey:
        return self.settings.models[self._number]

    # ---- stages

    def infer(self, items: Sequence[Item]) -> Iterator[Result]:
        """Probe while the engine loads, plan, then decode ahead of inference; the next host where memory asks for it.

        The one before is closed by then: two models would need even more.
        """
        self.left += len(items)
        self.watcher.starting(len(items))
        try:
            self.hosts[0].start()
            # Those that died least come first: who was only in the company of another is done before it.
            suspects = sorted(filter(self._died_of, items), key=self._died_of)
            probed = yield from self._probe([item for item in items if not self._died_of(item)])
            heard = [one.seconds * self.settings.rows(one) for one in probed]
            self.space.require(forecast(heard, self.settings.formats))
            while (probed or suspects) and not self.pace.over():
                try:
                    return (yield from self._load_and_run(self.hosts[self._number], probed, suspects))
                except TakeOver:
                    probed = [one for one in probed if one.item.id not in self._settled]
                    suspects = [item for item in suspects if item.id not in self._settled]
                    self._number += 1
                    self.hosts[self._number].start()
        except DeviceLost:
            self._release()
            raise
        finally:
            self.hosts[self._number].close()

    def _probe(self, items: Sequence[Item]) -> Generator[Result, None, list[Probed]]:
        """Read the headers; a recording that has none is a result."""
        probed: list[Probed] = []
        for start in range(0, len(items), PROBED_AT_ONCE):
            if self.pace.over():
                return []
            some = items[start : start + PROBED_AT_ONCE]
            outcomes = self._reader.headers(some)
            yield from (self._failed(outcome) for outcome in outcomes if isinstance(outcome, Failed))
            probed += [outcome for outcome in outcomes if not isinstance(outcome, Failed)]
        return probed

    def _died_of(self, item: Item) -> int:
        """How often in a row the program died while this was being read, alone or in company."""
        return self._deaths.get(key_of(item), 0)

    def _load_and_run(self, host: EngineHost, probed: Sequence[Probed], suspects: Sequence[Item]) -> Iterator[Result]:
        loaded = host.load()
        self._reader.sample_rate = loaded.sample_rate
        self.watcher.loaded(loaded)
        planned, room = self._plan(host, probed, loaded)
        self.watcher.planned(planned)
        last, oversight = self._number + 1 == len(self.hosts), self.settings.oversight
        oversight = replace(
            oversight,
            policy=replace(oversight.policy, fallback=oversight.policy.fallback and not last),
            model_sha=self._model.sha,
            baselines=self.ledger.baselines(),
        )
        overseer = Overseer(host, loaded, room, oversight, self.watcher.event, look=read_machine)
        yield from self._run(host, planned, suspects, overseer)
        self.ledger.set_baselines(overseer.baselines())

    def _plan(self, host: EngineHost, probed: Sequence[Probed], loaded: Loaded) -> tuple[list[Planned], Room]:
        """The order, the groups, and how many rows memory allows at once."""
        lengths = sorted({one.seconds for one in probed})
        needs = host.needs(lengths)
        self._needs = dict(zip(lengths, needs.sizes, strict=True))
        fixed = loaded.weights + needs.working
        fits = budget.planning_budget(loaded.memory_limit, fixed)
        planned: list[Planned] = []
        for part in _parted(probed, lambda one: key_of(one.item) in self._given_up):
            size, rows_of = self.settings.batch_size, self.settings.rows
            groups = plan(part, batch_size=size, need=self._needs.__getitem__, budget=fits, rows=rows_of)
            first = planned[-1].group + 1 if planned else 0
            planned += [replace(one, group=first + one.group) for one in groups]
        largest = max(self._needs.values(), default=0)
        rows = budget.slots(loaded.memory_limit, fixed, largest, self.settings.batch_size)
        return planned, Room(loaded.memory_limit, loaded.weights, self.settings.batch_size, rows, needs.working)

    def _run(
        self, host: EngineHost, planned: Sequence[Planned], suspects: Sequence[Item], overseer: Overseer
    ) -> Iterator[Result]:
        self._joins.clear()
        groups = Countdown(planned, time.monotonic())
        reader, settings = self._reader, self.settings
        feed = Feed(planned, reader.recording, suspects, reader.suspect, settings, self.pace, reader.sample_rate)
        # Closed in reverse: who waits for a job is let go before the host waits for whoever that is.
        with closing(host.run(feed, overseer.allowance)) as events, closing(feed):
            for event in events:
                yield from self._undecoded(feed, groups, overseer)
                # What is finished is kept, whatever the readings that came with it lead to.
                if isinstance(event, Event):
                    yield from self._finished(event.output, feed, groups, overseer)
                self._oversee(event, feed, overseer)
                if self.pace.grace() == 0.0:
                    return self._give_up(feed)
            yield from self._undecoded(feed, groups, overseer)
            for item in self._unsettled(feed) if not self.pace.over() else ():
                yield self._failed(Failed(item, "infer", "the engine ended without a result"))

    def _oversee(self, event: Happening, feed: Feed, overseer: Overseer) -> None:
        overseer.busy(self.pace.look(len(feed.active)))
        while self.pace.told:
            self.watcher.event("load", self.pace.told.popleft())
        if not isinstance(event, Changed):
            self.watcher.readings(event.readings)
        # A copy, made in one step: the feed's thread adds to it.
        active = list(feed.active.values())
        overseer.needs(max((self._needs.get(one.planned.probed.seconds, 0) for one in active), default=0))
        overseer.see(event)

    def _give_up(self, feed: Feed) -> None:
        """The grace after the time limit is over: the next run begins these last, so that they keep nobody waiting."""
        given_up = self._unsettled(feed)
        self.ledger.given_up(given_up)
        self.watcher.given_up(len(given_up))

    def _unsettled(self, feed: Feed) -> list[Item]:
        """Items that are being worked on and have no result, each once however many jobs it has."""
        items = {one.planned.probed.item.id: one.planned.probed.item for one in list(feed.active.values())}
        return [item for item in items.values() if item.id not in self._settled]

    # ---- results

    def _undecoded(self, feed: Feed, groups: Countdown, overseer: Overseer) -> Iterator[Result]:
        while feed.aside:
            failed = feed.aside.popleft()
            yield self._failed(failed)
            self._count(failed.item, groups, overseer)

    def _finished(
        self, output: Output | JobFailed, feed: Feed, groups: Countdown, overseer: Overseer
    ) -> Iterator[Result]:
        """The result that an output completes, if it does."""
        result = self._take(output, feed.active[output.job_id])
        if isinstance(output, JobFailed) or output.last:
            feed.release(output.job_id)  # and, with the last of a recording, its samples go
        if result is not None:
            yield result
            self.space.watch()
            self._count(result.item, groups, overseer)

    def _count(self, item: Item, groups: Countdown, overseer: Overseer) -> None:
        facts = groups.finished(item.id, time.monotonic())
        if facts is not None:
            overseer.group_done(facts)

    def _take(self, output: Output | JobFailed, prepared: Prepared) -> Result | None:
        """Join a window to its recording; a Result once the recording is complete, or one of its jobs has failed."""
        item = prepared.planned.probed.item
        if item.id in self._settled:
            return None  # by the failure of another of its jobs
        if isinstance(output, JobFailed):
            self._joins.pop(item.id, None)
            return self._failed(Failed(item, "infer", output.cause, quarantined=output.deadly))
        self.watcher.window(prepared.planned, output)
        join = self._joins.setdefault(item.id, Join(prepared.recording))
        if not join.take(output):
            return None
        return self._done(prepared, self._joins.pop(item.id))

    def _done(self, prepared: Prepared, join: Join) -> Result:
        item, seconds = prepared.planned.probed.item, prepared.recording.seconds
        transcript = join.transcript(self._model.name)
        outcome = attempt(item, lambda: self._write(item, transcript))
        if isinstance(outcome, Failed):
            return self._failed(outcome)
        self.ledger.done(
            item,
            fingerprint=prepared.fingerprint,
            content_hash=prepared.content_hash,
            inference_key=self.settings.inference_keys_for(item)[self._number],
            rendering_key=self.settings.rendering_key_for(item),
            transcript=transcript,
            outputs=outcome,
            seconds=seconds,
            model=self._model.name,
        )
        self._settle(item)
        self._deadly.clear()
        windows = tuple(output.stats for track in join.outputs for output in track)
        took = sum(window.latency for window in windows)
        return Done(item, tuple(outcome), seconds, windows, transcript.warnings, took, self._model.name)

    def rerendered(self, item: Item, transcript: Transcript) -> Result:
        """Other formats of a stored result: no inference."""
        outcome = attempt(item, lambda: self._write(item, transcript))
        if isinstance(outcome, Failed):
            # Not written down: the row keeps its transcript, and the next run renders it again.
            return outcome
        self.ledger.rendered(item, self.settings.rendering_key_for(item), outcome)
        return Done(item, tuple(outcome), transcript.seconds, (), transcript.warnings, model=transcript.model)

    def _write(self, item: Item, transcript: Transcript) -> list[Path]:
        paths, named = _outputs(item, self.settings), self.settings.labelled(transcript, item)
        rendered = (self._writers[name](named, item) for name in self.settings.formats)
        write_outputs(dict(zip(paths, rendered, strict=True)), self.settings.scratch)
        return paths

    def _failed(self, failed: Failed) -> Failed:
        self._settle(failed.item)
        if failed.quarantined:
            self._deadly.append(failed)
        self.ledger.failed(failed.item, failed.stage, failed.error, quarantined=failed.quarantined)
        return failed

    def _settle(self, item: Item) -> None:
        self._settled.add(item.id)
        self.left -= 1

    def _release(self) -> None:
        """Engine after engine died and nothing was done any more: the machine is to blame, these are tried again."""
        for failed in self._deadly:
            self.ledger.failed(failed.item, failed.stage, failed.error)


def _parted(probed: Sequence[Probed], later: Callable[[Probed], bool]) -> tuple[list[Probed], list[Probed]]:
    """Those that are not to come later, and those that are."""
    return [one for one in probed if not later(one)], [one for one in probed if later(one)]
