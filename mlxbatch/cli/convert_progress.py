"""What a conversion shows while it goes, on standard error: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from mlxbatch.cli.progress import EVERY, is_terminal
from mlxbatch.words import clock as as_clock
from mlxbatch.words import size

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from mlxbatch.convert.write import Step


class Lines:
    """A line for what is being done, and every few seconds how far it is."""

    def __init__(self, stream: TextIO, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._quiet, self._clock = stream, quiet, clock
        self._began: float | None = None
        self._last = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def say(self, text: str) -> None:
        """What is going on."""
        if not self._quiet:
            self._line(text)

    def note(self, text: str) -> None:
        """What the user should know, and can read later."""
        self.say(text)

    def fail(self, text: str) -> None:
        """What went wrong with one of several, which --quiet does not hide."""
        self._line(f"error: {text}")

    def step(self, step: Step) -> None:
        """A weight is written."""
        now = self._clock()
        if self._began is None:
            self._began = self._last = now
        if now - self._last >= EVERY:
            self._last = now
            self.say(step_line(step, now - self._began))

    def _line(self, text: str) -> None:
        # A reader that is gone, or a full disk below a redirection, ends no run.
        with suppress(OSError, ValueError):
            self._stream.write(f"mlxbatch: {text}\n")
            self._stream.flush()


class Bar(Lines):
    """A bar that is redrawn in place; lines stay above it."""

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn(), TextColumn("{task.description}", markup=False))
        # Standard output belongs to results, whatever else is on the screen.
        console = Console(file=self._stream)
        self._bar: Progress = Progress(*columns, console=console, transient=True, redirect_stdout=False)
        self._task: TaskID = self._bar.add_task("", total=None, visible=False)
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError, ValueError):  # the terminal may have been closed
            self._bar.stop()

    def step(self, step: Step) -> None:
        shown = step.done < step.total
        self._bar.update(self._task, description=step.weight, completed=step.done, total=step.total, visible=shown)

    def _line(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._bar.console.print(f"mlxbatch: {text}", markup=False, highlight=False, soft_wrap=True)


def step_line(step: Step, elapsed: float) -> str:
    """ "42 %: 1.3 GB of 3.1 GB, 0:17 left, decoder.blocks.3.mlp1.weight"."""
    share = step.done / step.total if step.total else 1.0
    left = f", {as_clock(elapsed * (1 - share) / share)} left" if share else ""
    return f"{share:.0%}: {size(step.done)} of {size(step.total)}{left}, {step.weight}"


def view(*, quiet: bool, as_json: bool) -> Lines:
    """What fits standard error. JSON lines on the same terminal would tear a bar apart."""
    live = is_terminal(sys.stderr) and not quiet and not (as_json and sys.stdout.isatty())
    return (Bar if live else Lines)(sys.stderr, quiet=quiet)
