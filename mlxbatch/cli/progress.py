"""What a run shows while it goes, on standard error: a live view in a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

from mlxbatch.cli.log import Level, Line, LogFile, Sink, make_log
from mlxbatch.cli.wording import event_line, result_level, result_line
from mlxbatch.types import Done, Failed, Output, Planned, Readings, Result, Skipped
from mlxbatch.words import clock, count, files, minutes, size

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from mlxbatch.cli.request import Flags

# Seconds of work between two plain lines: at first, and in a run of hours, whose log shall stay readable.
EVERY, SELDOM = 5.0, 60.0


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
    _jobs: dict[tuple[str, int], float] = field(default_factory=dict)

    def planned(self, planned: Sequence[Planned]) -> None:
        """What is to be done. A second time, when another model takes over, it is what is left, from its beginning."""
        self._began = self.clock() if self._began is None else self._began
        for one in planned:
            self._add(one)
            self._reached.pop(one.probed.item.id, None)
        self._jobs.clear()
        self.groups, self.group = len({one.group for one in planned}), 0

    def _add(self, planned: Planned) -> None:
        if planned.probed.item.id not in self._lengths:
            self._lengths[planned.probed.item.id] = planned.probed.seconds
            self.total += planned.probed.seconds

    def window(self, planned: Planned, output: Output) -> None:
        """A job is done up to the end of its latest window, and never less than before: windows overlap.

        A recording of several jobs, one for each channel, is done as far as they are on average.
        """
        self._add(planned)  # one that was left out of the plan, as what may end the program is
        item, stats, length = planned.probed.item.id, output.stats, planned.probed.seconds
        job = item, output.job_id
        before = self._jobs.get(job, 0.0)
        self._jobs[job] = max(before, min(stats.start + stats.seconds, length))
        further = (self._jobs[job] - before) / planned.rows
        self._reached[item] = min(length, self._reached.get(item, 0.0) + further)
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
    """Lines as they come: what happens, every few seconds of work how far it is, and what went wrong.

    `level` is the least that the stream gets, `others` take lines as well. A thread of its own keeps the lines coming
    while the engine is at a long piece of work and nothing is heard of it.
    """

    _last = 0.0

    def __init__(
        self,
        stream: TextIO,
        *,
        level: Level = "info",
        verbose: bool = False,
        others: Sequence[Sink] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stream, self.verbose = stream, verbose
        self.progress = Progress(clock)
        self._sinks = [Sink(level, self._show), *others]
        self._log = make_log(self._sinks)
        self._ended, self._lock = threading.Event(), threading.Lock()
        self._ticker = threading.Thread(target=self._keep_ticking, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._ticker.join()

    # ---- what happens

    def say(self, text: str) -> None:
        """What is going on before the engine works: a download, loading."""
        self.line(text, passing=True)

    def note(self, text: str) -> None:
        """What the user should know, and can read later."""
        self.line(text, "warning")

    def found(self, items: int) -> None:
        """How many inputs there are."""
        self.say(f"{files(items)} found")

    def planned(self, planned: Sequence[Planned]) -> None:
        self.progress.planned(planned)
        self._last = self.progress.clock()
        if planned:
            total, groups = minutes(self.progress.total), count(self.progress.groups, "group")
            self.line(f"{files(len(planned))} to do: {total} of audio in {groups}", passing=True)

    def window(self, planned: Planned, output: Output) -> None:
        self.progress.window(planned, output)

    def readings(self, readings: Readings) -> None:
        self.progress.readings(readings)
        self._tick()

    def result(self, result: Result) -> None:
        self.progress.result(result)
        self.line(result_line(result), result_level(result, verbose=self.verbose))

    def event(self, kind: str, facts: Mapping[str, Any]) -> None:
        """What the run did about the machine, where it is worth a line."""
        if worded := event_line(kind, facts):
            level, text = worded
            self.line(text, level)

    # ---- lines

    def line(self, text: str, level: Level = "info", *, passing: bool = False) -> None:
        """One line for all who want its level; what is `passing` does not stay in a live view."""
        getattr(self._log, level)(text, passing=passing)

    def shows(self, level: Level) -> bool:
        """Whether the stream gets lines of a level."""
        return self._sinks[0].wants(level)

    def _show(self, line: Line) -> None:
        # A reader that is gone, or a full disk below a redirection, ends no run.
        with suppress(OSError, ValueError):
            self.stream.write(f"mlxbatch: {line.text}\n")
            self.stream.flush()

    def _keep_ticking(self) -> None:
        while not self._ended.wait(EVERY / 5):
            self._tick()

    def _tick(self) -> None:
        with self._lock:
            now = self.progress.clock()
            pause = min(max(EVERY, self.progress.elapsed / 10), SELDOM)
            if self.progress.running and now - self._last >= pause:
                self._last = now
                self.line(f"{self.progress.share:.0%}: {', '.join(self.progress.figures())}", passing=True)


class LiveView(View):
    """A bar in a terminal, redrawn in place four times a second; what was drawn goes when the run ends."""

    _text = ""

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=self.stream)
        # Standard output belongs to results, whatever else is on the screen.
        self._live: Live = Live(
            get_renderable=self._render,
            console=self._console,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
        )
        self._live.start()
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        with suppress(OSError, ValueError):  # the terminal may have been closed, as in _show
            self._live.stop()

    def say(self, text: str) -> None:
        self._text = text
        super().say(text)

    def _show(self, line: Line) -> None:
        # Above what is drawn, which stays whole; what passes is drawn anyway.
        if not line.passing:
            with suppress(OSError, ValueError):
                self._console.print(f"mlxbatch: {line.text}", markup=False, highlight=False, soft_wrap=True)

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


def make_view(flags: Flags, log: LogFile | None) -> View:
    """The view that fits standard error. JSON lines on the same terminal would tear a live view apart.

    `--quiet` is about standard error alone: a log file gets what `--log-level` says.
    """
    level: Level = "error" if flags.quiet else flags.log_level
    live = is_terminal(sys.stderr) and not flags.quiet and not (flags.as_json and sys.stdout.isatty())
    others = [Sink(flags.log_level, log.take)] if log else []
    return (LiveView if live else View)(sys.stderr, level=level, verbose=flags.verbose, others=others)


def is_terminal(stream: TextIO) -> bool:
    """Whether a stream can be drawn on."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("dumb", "")
