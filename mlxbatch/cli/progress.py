"""What a run shows while it goes, on standard error: a live view in a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from mlxbatch.errors import show
from mlxbatch.types import Done, Failed, Output, Planned, Readings, Result, Skipped
from mlxbatch.words import clock, count, files, minutes, size

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

    from mlxbatch.cli.request import Flags

# Seconds of work between two plain lines.
EVERY = 5.0


@dataclass(slots=True)
class Progress:
    """Where a run is, in audio seconds. Pure: events in, figures out; `clock` gives seconds."""

    clock: Callable[[], float] = time.monotonic
    total: float = 0.0
    groups: int = 0
    group: int = 0
    done: int = 0
    failed: int = 0
    skipped: int = 0
    active: int = 0
    peak: int = 0
    _began: float | None = None
    _lengths: dict[str, float] = field(default_factory=dict)
    _reached: dict[str, float] = field(default_factory=dict)

    def planned(self, planned: Sequence[Planned]) -> None:
        self._began = self.clock()
        self._lengths = {one.probed.item.id: one.probed.seconds for one in planned}
        self.total = sum(self._lengths.values())
        self.groups = len({one.group for one in planned})

    def window(self, planned: Planned, output: Output) -> None:
        """A recording is done up to the end of its latest window, and never less than before: windows overlap."""
        item, stats = planned.probed.item.id, output.stats
        reached = min(stats.start + stats.seconds, planned.probed.seconds)
        self._reached[item] = max(self._reached.get(item, 0.0), reached)
        self.group = max(self.group, planned.group + 1)

    def result(self, result: Result) -> None:
        match result:
            case Done():
                self.done += 1
            case Failed():
                self.failed += 1
            case Skipped():
                self.skipped += 1
        if result.item.id in self._lengths:
            self._reached[result.item.id] = self._lengths[result.item.id]

    def readings(self, readings: Readings) -> None:
        self.active, self.peak = readings.active, max(self.peak, readings.peak)

    @property
    def running(self) -> bool:
        """Whether the engine is at work."""
        return self._began is not None

    @property
    def seconds(self) -> float:
        # A copy, made in one step: the view's thread reads while the run's adds.
        return sum(list(self._reached.values()))

    @property
    def share(self) -> float:
        return self.seconds / self.total if self.total else 1.0

    @property
    def rtfx(self) -> float | None:
        return self.seconds / self.elapsed if self.elapsed > 0 and self.seconds else None

    @property
    def elapsed(self) -> float:
        """Seconds since the engine began."""
        return self.clock() - self._began if self._began is not None else 0.0

    @property
    def eta(self) -> float | None:
        """Seconds that are left at the pace so far."""
        return (self.total - self.seconds) / self.rtfx if self.rtfx else None

    def figures(self) -> list[str]:
        """The parts of a progress line."""
        rate, left = self.rtfx, self.eta
        parts = [f"{minutes(self.seconds)} of {minutes(self.total)}"]
        parts += [f"{clock(self.elapsed)} so far"] if self.running else []
        parts += [f"RTFx {rate:.1f}"] if rate is not None else []
        parts += [f"{clock(left)} left"] if left is not None else []
        parts += [f"group {self.group}/{self.groups}"] if self.group else []
        parts += [f"memory {size(self.active)}, peak {size(self.peak)}"] if self.peak else []
        parts += [f"{self.failed} failed"] if self.failed else []
        return parts


class View:
    """Shows nothing but failures: `--quiet`, and the base of the others."""

    def __init__(self, stream: TextIO, *, verbose: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream, self.verbose = stream, verbose
        self.progress = Progress(clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def say(self, text: str) -> None:
        """What is going on before the engine works: a download, loading."""

    def note(self, text: str) -> None:
        """What the user should know, and can read later."""

    def found(self, items: int) -> None:
        """How many inputs there are."""

    def planned(self, planned: Sequence[Planned]) -> None:
        self.progress.planned(planned)

    def window(self, planned: Planned, output: Output) -> None:
        self.progress.window(planned, output)

    def readings(self, readings: Readings) -> None:
        self.progress.readings(readings)

    def result(self, result: Result) -> None:
        self.progress.result(result)
        if self.shows(result):
            self.line(result_line(result))

    def shows(self, result: Result) -> bool:
        return isinstance(result, Failed)

    def line(self, text: str) -> None:
        """One line that stays."""
        print(f"mlxbatch: {text}", file=self.stream, flush=True)


class PlainView(View):
    """Lines for a log: one at the start, one every few seconds of work, one at the end.

    A thread of its own keeps them coming while the engine is at a long piece of work and nothing is heard of it.
    """

    _last = 0.0

    def __enter__(self) -> Self:
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._ticker = threading.Thread(target=self._keep_ticking, name="progress", daemon=True)
        self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._ticker.join()

    def _keep_ticking(self) -> None:
        while not self._ended.wait(EVERY / 5):
            self._tick()

    def shows(self, result: Result) -> bool:
        return self.verbose

    def say(self, text: str) -> None:
        self.line(text)

    def note(self, text: str) -> None:
        self.line(text)

    def found(self, items: int) -> None:
        self.line(f"{files(items)} found")

    def planned(self, planned: Sequence[Planned]) -> None:
        super().planned(planned)
        self._last = self.progress.clock()
        if planned:
            total, groups = minutes(self.progress.total), count(self.progress.groups, "group")
            self.line(f"{files(len(planned))} to do: {total} of audio in {groups}")

    def readings(self, readings: Readings) -> None:
        super().readings(readings)
        self._tick()

    def _tick(self) -> None:
        with self._lock:
            now = self.progress.clock()
            if self.progress.running and now - self._last >= EVERY:
                self._last = now
                self.line(f"{self.progress.share:.0%}: {', '.join(self.progress.figures())}")


class LiveView(View):
    """A bar in a terminal, redrawn in place four times a second; what was drawn goes when the run ends."""

    _text = ""

    def shows(self, result: Result) -> bool:
        return self.verbose

    def __enter__(self) -> Self:
        from rich.live import Live

        self._console = _console(self.stream)
        # Standard output belongs to results, whatever else is on the screen.
        self._live: Live = Live(
            get_renderable=self._render,
            console=self._console,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
        )
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        self._text = text

    def note(self, text: str) -> None:
        self.line(text)

    def found(self, items: int) -> None:
        self.say(f"{files(items)} found")

    def line(self, text: str) -> None:
        self._console.print(f"mlxbatch: {text}", markup=False, highlight=False, soft_wrap=True)

    def _render(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        if not self.progress.running:
            return Spinner("dots", Text(self._text))
        bar = ProgressBar(total=max(self.progress.total, 1e-9), completed=self.progress.seconds, width=40)
        line = Table.grid(padding=(0, 1))
        line.add_row(bar, Text(f"{self.progress.share:.0%}", style="bold"))
        return Group(line, Text(", ".join(self.progress.figures()), overflow="ellipsis", no_wrap=True))


def make_view(flags: Flags) -> View:
    """The view that fits standard error. JSON lines on the same terminal would tear a live view apart."""
    if flags.quiet:
        return View(sys.stderr)
    live = is_terminal(sys.stderr) and not (flags.as_json and sys.stdout.isatty())
    return (LiveView if live else PlainView)(sys.stderr, verbose=flags.verbose)


def is_terminal(stream: TextIO) -> bool:
    """Whether a stream can be drawn on."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("dumb", "")


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    return Console(file=stream)


def result_line(result: Result) -> str:
    """One outcome on one line."""
    source = show(result.item.source)
    match result:
        case Done():
            notes = "".join(f"; {warning}" for warning in result.warnings)
            return f"done: {source} ({clock(result.seconds)}){notes}"
        case Failed():
            return f"failed: {source}: {result.stage}: {show(result.error)}"
        case Skipped():
            return f"skipped: {source}: {result.why}"
