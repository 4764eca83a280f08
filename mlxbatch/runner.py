"""The one place where a run is put together: decide, probe, plan, decode ahead, infer, join, write, remember."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from mlxbatch import budget
from mlxbatch.audio import decode
from mlxbatch.disk import Space, forecast
from mlxbatch.errors import ItemError, item_stage
from mlxbatch.host import EngineHost
from mlxbatch.ledger import Decision, Fingerprint, Fresh, Infer, Ledger, Render, content_hash, fingerprint
from mlxbatch.pacing import Pace, TimeIsUp
from mlxbatch.pipeline import Prefetch
from mlxbatch.plan import plan
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

# Seconds between two looks at the time while a recording is being decoded.
DECODING = 0.25


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How a run goes. Keys are the ledger's: what changes a result, and what changes its rendering.

    `stop_at` is on time.monotonic: from then on nothing is begun. `min_free` bytes of the output's disk stay free.
    """

    output: Path
    formats: tuple[str, ...]
    inference_key: str
    rendering_key: str
    options: TranscribeOptions = field(default_factory=TranscribeOptions)
    batch_size: int = 8
    workers: int = 2
    prefetch_bytes: int = 512 * 10**6
    prefetch_items: int = 32
    force: bool = False
    min_free: int = 0
    stop_at: float | None = None
    max_load: float | None = None

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

    def left(self, items: int) -> None:
        """So many were not begun, or not finished, within the time limit: the run ends without them."""

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
    Closing the generator early leaves no thread and no child behind. SetupError where nothing can be written. Past
    `stop_at` the items that are left have no Result, and the watcher is told how many they are.
    """
    run = _Run(hosts[0], ledger, settings, watcher)
    watcher.found(len(items))
    todo: list[Item] = []
    for item in items:
        if run.pace.over():
            run.left += 1
            continue
        match decide(item, ledger, settings):
            case Fresh(why):
                yield Skipped(item, why)
            case Render(transcript):
                run.space.watch()
                yield run.rerendered(item, transcript)
            case Infer():
                todo.append(item)
    if todo:
        try:
            yield from run.infer(todo)
        finally:
            run.host.close()
    if run.left:
        watcher.left(run.left)


def decide(item: Item, ledger: Ledger | None, settings: RunSettings) -> Decision:
    """What is to be done for an item; without a ledger, as before a first run, everything is new."""
    if settings.force:
        return Infer("--force")
    if ledger is None:
        return Infer("new")
    return ledger.decide(item, settings.inference_key, settings.rendering_key, _outputs(item, settings))


def _outputs(item: Item, settings: RunSettings) -> list[Path]:
    return [output_path(settings.output, item.relpath, name) for name in settings.formats]


class _Run:
    """One run's moving parts."""

    def __init__(self, host: EngineHost, ledger: Ledger, settings: RunSettings, watcher: Watcher) -> None:
        self.host, self.ledger, self.settings, self.watcher = host, ledger, settings, watcher
        self._active: dict[int, _Prepared] = {}
        self._outputs: dict[int, dict[int, Output]] = {}
        self._undecodable: list[Failed] = []
        self.space = Space(settings.output, settings.min_free)
        self.pace = Pace(settings.stop_at, settings.max_load)
        self.left = 0  # items that have no result yet and are to have one

    # ---- stages

    def infer(self, items: Sequence[Item]) -> Iterator[Result]:
        """Probe while the engine loads, plan, then decode ahead of inference."""
        self.left += len(items)
        self.watcher.starting(len(items))
        self.host.start()
        probed: list[Probed] = []
        for item in items:
            if self.pace.over():
                return
            outcome = _attempt(item, lambda item=item: probe(item))  # type: ignore[misc]
            if isinstance(outcome, Failed):
                yield self._failed(outcome)
            else:
                probed.append(outcome)
        if not probed:
            return
        self.space.require(forecast([one.seconds for one in probed], self.settings.formats))
        loaded = self.host.load()
        self.watcher.loaded(loaded)
        planned, rows = self._plan(probed, loaded)
        self.watcher.planned(planned)
        yield from self._run(planned, rows)

    def _plan(self, probed: Sequence[Probed], loaded: Loaded) -> tuple[list[Planned], int]:
        """The order, the groups, and how many rows memory allows at once."""
        lengths = sorted({one.seconds for one in probed})
        needs = dict(zip(lengths, self.host.needs(lengths), strict=True))
        room = budget.planning_budget(loaded.memory_limit, loaded.weights)
        planned = plan(probed, batch_size=self.settings.batch_size, need=needs.__getitem__, budget=room)
        largest = max(needs.values(), default=0)
        rows = budget.slots(loaded.memory_limit, loaded.weights, largest, self.settings.batch_size)
        return planned, rows

    def _run(self, planned: Sequence[Planned], rows: int) -> Iterator[Result]:
        jobs = _Jobs(planned, self.settings, self.pace, self._active, self._undecodable)
        # Closed in reverse: who waits for a job is let go before the host waits for whoever that is.
        with self._time_limit(), closing(self.host.run(jobs, rows)) as events, closing(jobs):
            for event in _in_time(events):
                self.watcher.readings(event.readings)
                self._tell()
                yield from self._undecoded()
                result = self._take(event.output)
                if result is not None:
                    jobs.release(self._active.pop(event.output.job_id))
                    yield result
                    self.space.watch()
            yield from self._undecoded()
            for prepared in self._active.values() if not self.pace.over() else ():
                yield self._failed(Failed(prepared.planned.probed.item, "infer", "the engine ended without a result"))

    @contextmanager
    def _time_limit(self) -> Iterator[None]:
        """Inside the block TimeIsUp comes out of the host when the grace is over."""
        grace = self.pace.grace()
        if grace is None:
            yield
            return
        timer = threading.Timer(grace, self.host.interrupt, [TimeIsUp("the time limit and its grace are over")])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()

    def _tell(self) -> None:
        while self.pace.told:
            self.watcher.event("governor", self.pace.told.popleft())

    def _undecoded(self) -> Iterator[Result]:
        while self._undecodable:
            yield self._failed(self._undecodable.pop(0))

    # ---- results

    def _take(self, output: Output | JobFailed) -> Result | None:
        """Join a window to its recording; a Result once the recording is complete."""
        prepared = self._active[output.job_id]
        item = prepared.planned.probed.item
        if isinstance(output, JobFailed):
            self._outputs.pop(output.job_id, None)
            return self._failed(Failed(item, "infer", output.cause))
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
        )
        outcome = _attempt(item, lambda: self._write(item, transcript))
        if isinstance(outcome, Failed):
            return self._failed(outcome)
        self.ledger.done(
            item,
            fingerprint=prepared.fingerprint,
            content_hash=prepared.content_hash,
            inference_key=self.settings.inference_key,
            rendering_key=self.settings.rendering_key,
            transcript=transcript,
            outputs=outcome,
            seconds=recording.seconds,
        )
        self.left -= 1
        windows = tuple(output.stats for output in outputs)
        return Done(item, tuple(outcome), recording.seconds, windows, transcript.warnings)

    def rerendered(self, item: Item, transcript: Transcript) -> Result:
        """Other formats of a stored result: no inference."""
        outcome = _attempt(item, lambda: self._write(item, transcript))
        if isinstance(outcome, Failed):
            # Not written down: the row keeps its transcript, and the next run renders it again.
            return outcome
        self.ledger.rendered(item, self.settings.rendering_key, outcome)
        return Done(item, tuple(outcome), transcript.seconds, (), transcript.warnings)

    def _write(self, item: Item, transcript: Transcript) -> list[Path]:
        paths = _outputs(item, self.settings)
        rendered = (WRITERS[name](transcript, item) for name in self.settings.formats)
        write_outputs(dict(zip(paths, rendered, strict=True)), self.settings.scratch)
        return paths

    def _failed(self, failed: Failed) -> Failed:
        self.ledger.failed(failed.item, failed.stage, failed.error)
        self.left -= 1
        return failed


T = TypeVar("T")


def _attempt(item: Item, work: Callable[[], T]) -> T | Failed:
    """The one place where an item's error becomes a value."""
    try:
        return work()
    except ItemError as error:
        return Failed(item, error.stage, error.cause)


def _in_time(events: Iterator[Event]) -> Iterator[Event]:
    """Events up to the end of the grace after the time limit."""
    try:
        yield from events
    except TimeIsUp:
        return


def _prepare(planned: Planned) -> _Prepared:
    """Decode one recording, on a worker's thread. The file's identity is taken first: a later change shows next run."""
    item = planned.probed.item
    with item_stage(item.source, "decode"):
        mark, digest = fingerprint(item.source), content_hash(item.source)
        return _Prepared(planned, decode(item), mark, digest)


class _Jobs:
    """Jobs in plan order (engines.base.Jobs), decoded ahead; what cannot be decoded is put aside and passed over.

    Each waits for its turn (mlxbatch.pacing); after the time limit none comes.
    """

    def __init__(
        self,
        planned: Sequence[Planned],
        settings: RunSettings,
        pace: Pace,
        active: dict[int, _Prepared],
        aside: list[Failed],
    ) -> None:
        self._options, self._pace, self._active, self._aside = settings.options, pace, active, aside
        self._changed = threading.Condition()
        self._closed = False
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
            self._await_turn()
            prepared = next(self._prefetch)
            planned = next(self._planned)
            self._number += 1
            if isinstance(prepared, Failed):
                self._aside.append(prepared)
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

    def _await_turn(self) -> None:
        with self._changed:
            while not self._closed and (pause := self._pace.pause(len(self._active))) is not None:
                if pause == 0.0 and (self._pace.stop_at is None or self._prefetch.ready()):
                    return
                self._changed.wait(pause or DECODING)
        raise StopIteration

    def ready(self) -> bool:
        pause = self._pace.pause(len(self._active))
        return pause is None or (pause == 0.0 and self._prefetch.ready())

    def release(self, prepared: _Prepared) -> None:
        """A recording is done with: another may be decoded, or begun."""
        self._prefetch.release(_cost(prepared.planned))
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._prefetch.close()


def _cost(planned: Planned) -> int:
    """Bytes of the decoded samples, mono float32 at 16 kHz, by the header's length."""
    return int(planned.probed.seconds * 16_000 * 4)
