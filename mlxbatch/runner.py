"""The one place where a run is put together: decide, probe, plan, decode ahead, infer, join, write, remember."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from mlxbatch import budget
from mlxbatch.audio import decode
from mlxbatch.errors import ItemError, item_stage
from mlxbatch.governor import Room
from mlxbatch.host import Changed, EngineHost, Happening
from mlxbatch.ledger import (
    Baseline,
    Decision,
    Fingerprint,
    Fresh,
    Infer,
    Ledger,
    Quarantined,
    Render,
    content_hash,
    fingerprint,
)
from mlxbatch.machine import read_machine
from mlxbatch.overseer import Overseer, Oversight, TakeOver
from mlxbatch.pipeline import Prefetch
from mlxbatch.plan import Countdown, plan
from mlxbatch.probe import probe
from mlxbatch.types import (
    Done,
    Failed,
    Item,
    Job,
    JobFailed,
    Output,
    Planned,
    Probed,
    Readings,
    Recording,
    Result,
    Skipped,
    TranscribeOptions,
    Transcript,
)
from mlxbatch.worker import Event, Loaded
from mlxbatch.writers import WRITERS
from mlxbatch.writers.files import output_path, write_outputs


@dataclass(frozen=True, slots=True)
class ModelKey:
    """A model's name and hash, and the inference key of what it makes under the run's options."""

    name: str
    inference_key: str
    sha: str = ""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How a run goes. `models` are those of the hosts, in their order; a result of any of them counts as done."""

    output: Path
    formats: tuple[str, ...]
    models: tuple[ModelKey, ...]
    rendering_key: str
    options: TranscribeOptions = field(default_factory=TranscribeOptions)
    batch_size: int = 8
    workers: int = 2
    prefetch_bytes: int = 512 * 10**6
    prefetch_items: int = 32
    force: bool = False
    retry_quarantined: bool = False
    oversight: Oversight = field(default_factory=Oversight)

    @property
    def scratch(self) -> Path:
        return self.output / ".mlxbatch" / "tmp"


class Watcher:
    """Told what happens, as it happens; does nothing by itself."""

    def found(self, items: int) -> None:
        """How many items there are in all."""

    def starting(self, items: int) -> None:
        """So many need inference, and the engine begins to load."""

    def loaded(self, loaded: Loaded) -> None:
        """The engine is there."""

    def planned(self, planned: Sequence[Planned]) -> None:
        """What will be inferred, in order."""

    def window(self, planned: Planned, output: Output) -> None:
        """A window is finished."""

    def readings(self, readings: Readings) -> None:
        """Memory and stages, with every reply of the host."""

    def event(self, kind: str, facts: Mapping[str, Any]) -> None:
        """What the run did about the machine: "governor", "child", "leak", "group"; facts as JSON can hold them."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A decoded recording and what its file was before it was read."""

    planned: Planned
    recording: Recording
    fingerprint: Fingerprint
    content_hash: str


def transcribe(
    items: Sequence[Item], hosts: Sequence[EngineHost], ledger: Ledger, settings: RunSettings, watcher: Watcher
) -> Iterator[Result]:
    """Every item once as a Result, in the order in which they are finished.

    The ledger is written on the caller's thread, after the outputs are in place and before the Result is yielded.
    Closing the generator early leaves no thread and no child behind. SetupError where nothing can be written.
    """
    run = _Run(hosts, ledger, settings, watcher)
    watcher.found(len(items))
    todo: list[Item] = []
    for item in items:
        match decide(item, ledger, settings):
            case Fresh(why) | Quarantined(why):
                yield Skipped(item, why)
            case Render(transcript):
                yield run.rerendered(item, transcript)
            case Infer():
                todo.append(item)
    if todo:
        yield from run.infer(todo)


def decide(item: Item, ledger: Ledger | None, settings: RunSettings) -> Decision:
    """What is to be done for an item; without a ledger, as before a first run, everything is new."""
    if settings.force:
        return Infer("--force")
    if ledger is None:
        return Infer("new")
    return ledger.decide(
        item,
        [model.inference_key for model in settings.models],
        settings.rendering_key,
        _outputs(item, settings),
        retry_quarantined=settings.retry_quarantined,
    )


def _outputs(item: Item, settings: RunSettings) -> list[Path]:
    return [output_path(settings.output, item.relpath, name) for name in settings.formats]


class _Run:
    """One run's moving parts."""

    def __init__(self, hosts: Sequence[EngineHost], ledger: Ledger, settings: RunSettings, watcher: Watcher) -> None:
        self.hosts, self.ledger, self.settings, self.watcher = hosts, ledger, settings, watcher
        self._number = 0  # of the host that works
        self._active: dict[int, _Prepared] = {}
        self._outputs: dict[int, dict[int, Output]] = {}
        self._undecodable: list[tuple[Planned, Failed]] = []
        self._settled: set[str] = set()

    @property
    def _model(self) -> ModelKey:
        return self.settings.models[self._number]

    # ---- stages

    def infer(self, items: Sequence[Item]) -> Iterator[Result]:
        """Probe while the engine loads, plan, then decode ahead of inference; the next host where memory asks for it.

        The one before is closed by then: two models would need even more.
        """
        self.watcher.starting(len(items))
        try:
            self.hosts[0].start()
            probed = yield from self._probe(items)
            while probed:
                try:
                    return (yield from self._load_and_run(self.hosts[self._number], probed))
                except TakeOver:
                    probed = [one for one in probed if one.item.id not in self._settled]
                    self._number += 1
                    self.hosts[self._number].start()
        finally:
            self.hosts[self._number].close()

    def _probe(self, items: Sequence[Item]) -> Generator[Result, None, list[Probed]]:
        probed: list[Probed] = []
        for item in items:
            outcome = _attempt(item, lambda item=item: probe(item))  # type: ignore[misc]
            if isinstance(outcome, Failed):
                yield self._failed(outcome)
            else:
                probed.append(outcome)
        return probed

    def _load_and_run(self, host: EngineHost, probed: Sequence[Probed]) -> Iterator[Result]:
        loaded = host.load()
        self.watcher.loaded(loaded)
        planned, room = self._plan(host, probed, loaded)
        self.watcher.planned(planned)
        last = self._number + 1 == len(self.hosts)
        oversight = self.settings.oversight
        policy = replace(oversight.policy, fallback=oversight.policy.fallback and not last)
        overseer = Overseer(
            host, loaded, room, replace(oversight, policy=policy), self.watcher.event, look=read_machine
        )
        yield from self._run(host, planned, overseer)
        for key, peak in overseer.peaks().items():
            self.ledger.set_baseline(key, Baseline(loaded.readings.active, loaded.readings.rss, peak))

    def _plan(self, host: EngineHost, probed: Sequence[Probed], loaded: Loaded) -> tuple[list[Planned], Room]:
        """The order, the groups, and how many rows memory allows at once."""
        lengths = sorted({one.seconds for one in probed})
        self._needs = dict(zip(lengths, host.needs(lengths), strict=True))
        fits = budget.planning_budget(loaded.memory_limit, loaded.weights)
        planned = plan(probed, batch_size=self.settings.batch_size, need=self._needs.__getitem__, budget=fits)
        largest = max(self._needs.values(), default=0)
        rows = budget.slots(loaded.memory_limit, loaded.weights, largest, self.settings.batch_size)
        return planned, Room(loaded.memory_limit, loaded.weights, self.settings.batch_size, rows)

    def _run(self, host: EngineHost, plan: Sequence[Planned], overseer: Overseer) -> Iterator[Result]:
        self._active.clear()
        self._outputs.clear()
        groups = Countdown(plan, time.monotonic())
        jobs = _Jobs(plan, self.settings, self._active, self._undecodable)
        # Closed in reverse: who waits for a job is let go before the host waits for whoever that is.
        with closing(host.run(jobs, overseer.allowance)) as events, closing(jobs):
            for event in events:
                yield from self._undecoded(groups, overseer)
                self._oversee(event, overseer)
                if not isinstance(event, Event):
                    continue
                result = self._take(event.output)
                if result is not None:
                    planned = self._active.pop(event.output.job_id).planned  # and its samples go
                    jobs.release(planned)
                    yield result
                    self._count(planned, groups, overseer)
            yield from self._undecoded(groups, overseer)
            for prepared in self._active.values():
                yield self._failed(Failed(prepared.planned.probed.item, "infer", "the engine ended without a result"))

    def _oversee(self, event: Happening, overseer: Overseer) -> None:
        if not isinstance(event, Changed):
            self.watcher.readings(event.readings)
        # A copy, made in one step: the jobs' thread adds to it.
        active = list(self._active.values())
        overseer.needs(max((self._needs[one.planned.probed.seconds] for one in active), default=0))
        overseer.see(event)

    def _undecoded(self, groups: Countdown, overseer: Overseer) -> Iterator[Result]:
        while self._undecodable:
            planned, failed = self._undecodable.pop(0)
            yield self._failed(failed)
            self._count(planned, groups, overseer)

    def _count(self, planned: Planned, groups: Countdown, overseer: Overseer) -> None:
        facts = groups.finished(planned, time.monotonic())
        if facts is not None:
            overseer.group_done(facts)

    # ---- results

    def _take(self, output: Output | JobFailed) -> Result | None:
        """Join a window to its recording; a Result once the recording is complete."""
        prepared = self._active[output.job_id]
        item = prepared.planned.probed.item
        if isinstance(output, JobFailed):
            self._outputs.pop(output.job_id, None)
            return self._failed(Failed(item, "infer", output.cause, quarantined=output.deadly))
        self.watcher.window(prepared.planned, output)
        # By number: a job that was begun anew after a crash repeats the windows it had finished, or comes to fewer.
        windows = self._outputs.setdefault(output.job_id, {})
        windows[output.window] = output
        if not output.last:
            return None
        del self._outputs[output.job_id]
        return self._done(prepared, [windows[number] for number in sorted(windows) if number <= output.window])

    def _done(self, prepared: _Prepared, outputs: Sequence[Output]) -> Result:
        item, recording = prepared.planned.probed.item, prepared.recording
        transcript = Transcript(
            segments=tuple(segment for output in outputs for segment in output.segments),
            language=next((output.language for output in outputs if output.language), None),
            seconds=recording.seconds,
            warnings=recording.warnings,
            truncated=recording.truncated,
            model=self._model.name,
        )
        outcome = _attempt(item, lambda: self._write(item, transcript))
        if isinstance(outcome, Failed):
            return self._failed(outcome)
        self.ledger.done(
            item,
            fingerprint=prepared.fingerprint,
            content_hash=prepared.content_hash,
            inference_key=self._model.inference_key,
            rendering_key=self.settings.rendering_key,
            transcript=transcript,
            outputs=outcome,
            seconds=recording.seconds,
            model=self._model.name,
        )
        self._settled.add(item.id)
        windows = tuple(output.stats for output in outputs)
        took = sum(window.latency for window in windows)
        return Done(item, tuple(outcome), recording.seconds, windows, transcript.warnings, took, self._model.name)

    def rerendered(self, item: Item, transcript: Transcript) -> Result:
        """Other formats of a stored result: no inference."""
        outcome = _attempt(item, lambda: self._write(item, transcript))
        if isinstance(outcome, Failed):
            # Not written down: the row keeps its transcript, and the next run renders it again.
            return outcome
        self.ledger.rendered(item, self.settings.rendering_key, outcome)
        return Done(item, tuple(outcome), transcript.seconds, (), transcript.warnings, model=transcript.model)

    def _write(self, item: Item, transcript: Transcript) -> list[Path]:
        paths = _outputs(item, self.settings)
        rendered = (WRITERS[name](transcript, item) for name in self.settings.formats)
        write_outputs(dict(zip(paths, rendered, strict=True)), self.settings.scratch)
        return paths

    def _failed(self, failed: Failed) -> Failed:
        self._settled.add(failed.item.id)
        self.ledger.failed(failed.item, failed.stage, failed.error, quarantined=failed.quarantined)
        return failed


T = TypeVar("T")


def _attempt(item: Item, work: Callable[[], T]) -> T | Failed:
    """The one place where an item's error becomes a value."""
    try:
        return work()
    except ItemError as error:
        return Failed(item, error.stage, error.cause)


def _prepare(planned: Planned) -> _Prepared:
    """Decode one recording, on a worker's thread. The file's identity is taken first: a later change shows next run."""
    item = planned.probed.item
    with item_stage(item.source, "decode"):
        mark, digest = fingerprint(item.source), content_hash(item.source)
        return _Prepared(planned, decode(item), mark, digest)


class _Jobs:
    """Jobs in plan order (engines.base.Jobs), decoded ahead; what cannot be decoded is put aside and passed over."""

    def __init__(
        self,
        planned: Sequence[Planned],
        settings: RunSettings,
        active: dict[int, _Prepared],
        aside: list[tuple[Planned, Failed]],
    ) -> None:
        self._options, self._active, self._aside = settings.options, active, aside
        self._prefetch: Prefetch[Planned, _Prepared | Failed] = Prefetch(
            lambda one: _attempt(one.probed.item, lambda: _prepare(one)),
            planned,
            workers=settings.workers,
            count=settings.prefetch_items,
            size=settings.prefetch_bytes,
            cost=_cost,
        )
        self._planned = iter(planned)
        self._number = -1

    def __iter__(self) -> Iterator[Job]:
        return self

    def __next__(self) -> Job:
        while True:
            prepared = next(self._prefetch)
            planned = next(self._planned)
            self._number += 1
            if isinstance(prepared, Failed):
                self._aside.append((planned, prepared))
                self._prefetch.release(_cost(planned))
                continue
            self._active[self._number] = prepared
            return self._job(prepared)

    def _job(self, prepared: _Prepared) -> Job:
        recording, planned = prepared.recording, prepared.planned
        return Job(
            id=self._number,
            item_id=planned.probed.item.id,
            samples=recording.samples,
            seconds=recording.seconds,
            group=planned.group,
            options=self._options,
        )

    def ready(self) -> bool:
        return self._prefetch.ready()

    def release(self, planned: Planned) -> None:
        """A recording is done with: another may be decoded."""
        self._prefetch.release(_cost(planned))

    def close(self) -> None:
        self._prefetch.close()


def _cost(planned: Planned) -> int:
    """Bytes of the decoded samples, mono float32 at 16 kHz, by the header's length."""
    return int(planned.probed.seconds * 16_000 * 4)
