"""What a command line leaves behind when it has ended, however it did: its error in `--log-file`, `--metrics-file`."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from mlxbatch import __version__
from mlxbatch.cli.log import Level, Line, LogFile
from mlxbatch.errors import show

if TYPE_CHECKING:
    from mlxbatch.metrics import RunStats


@dataclass(slots=True)
class Ending:
    """The object of typer's context, made anew for each command line, and filled in as more is known of the run.

    `task` and `output` tell one job's metrics from another's; `info` says what ran.
    """

    debug: bool = False
    log: LogFile | None = None
    metrics: Path | None = None
    task: str = ""
    output: Path = Path()
    stats: RunStats | None = None
    info: dict[str, str] = field(default_factory=dict)

    def open(self, task: str, output: Path, log_file: Path | None, metrics_file: Path | None) -> None:
        """Before anything else is done: SetupError where one of the files could not be written."""
        if log_file is not None:
            self.log = LogFile(log_file)
        if metrics_file is not None:
            from mlxbatch.exposition import check_writable
            from mlxbatch.metrics import RunStats

            check_writable(metrics_file)
            self.metrics, self.stats = metrics_file, RunStats()
        self.task, self.output = task, output

    def tell(self, text: str, level: Level = "error") -> None:
        """A line for the log file alone: standard error is told by whoever calls."""
        if self.log is not None:
            at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            self.log.take(Line(at, level, show(text)))

    def write_metrics(self, exit_code: int) -> None:
        """SetupError where they cannot be written."""
        if self.metrics is not None and self.stats is not None:
            from mlxbatch import exposition

            output = show(self.output.resolve())
            ended = exposition.Ended(self.task, output, exit_code, time.time(), self.info | {"version": __version__})
            exposition.write(self.metrics, ended, self.stats)
