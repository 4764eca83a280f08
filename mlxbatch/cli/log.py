"""The lines that people read: which level each has, and who takes it, standard error and `--log-file`.

Made with structlog, and without its global settings: each view has a logger of its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from mlxbatch.errors import SetupError, show
from mlxbatch.stdio import complain

Level = Literal["debug", "info", "warning", "error"]
LEVELS: tuple[Level, ...] = get_args(Level)


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end. `at` is UTC in ISO 8601; what is `passing` need not stay on a screen."""

    at: str
    level: Level
    text: str
    passing: bool = False


@dataclass(frozen=True, slots=True)
class Sink:
    """Takes the lines of its level and above."""

    level: Level
    take: Callable[[Line], None]

    def wants(self, level: Level) -> bool:
        return LEVELS.index(level) >= LEVELS.index(self.level)


def make_log(sinks: Sequence[Sink]) -> Any:
    """A logger with `debug`, `info`, `warning` and `error`, each of which takes a text and `passing`."""
    import structlog

    lowest = min((sink.level for sink in sinks), key=LEVELS.index, default="error")
    stamp = structlog.processors.TimeStamper("%Y-%m-%dT%H:%M:%SZ", utc=True, key="at")
    kind = structlog.make_filtering_bound_logger(lowest)
    logger = structlog.wrap_logger(_Fan(sinks), [structlog.processors.add_log_level, stamp, _one_line], kind, dict)
    return logger.bind()


def _one_line(logger: object, method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Causes that others word may have line ends in them, and escapes that would move a terminal's cursor."""
    entry["text"] = show(entry.pop("event"))
    return entry


class _Fan:
    """What structlog calls with a finished line: every sink that wants it gets it, one line at a time."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = sinks
        self._lock = threading.Lock()

    def debug(self, **entry: Any) -> None:
        line = Line(**entry)
        with self._lock:
            for sink in self._sinks:
                if sink.wants(line.level):
                    sink.take(line)

    info = warning = error = debug


class LogFile:
    """`--log-file`: lines with time, level and process id, appended.

    The file is opened anew for each line, so one that logrotate has moved away or emptied is made or begun again.
    A line that the disk does not take is lost and the run goes on, its results matter more: standard error says so
    once, and the file itself how many lines are missing as soon as it takes them again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lost, self._torn = 0, False
        try:
            os.close(self._open())
        except OSError as error:
            raise SetupError(f"cannot write the log file {show(path)}: {error.strerror or error}") from error

    def take(self, line: Line) -> None:
        try:
            if self._lost:
                self._append(line.at, "warning", f"{self._lost} lines are missing here: they could not be written")
                self._lost = 0
            self._append(line.at, line.level, line.text)
        except OSError as error:
            self._lost += 1
            if self._lost == 1:
                complain(f"cannot write the log file {show(self.path)}: {error.strerror}; the run goes on")

    def _append(self, at: str, level: Level, text: str) -> None:
        """In one piece, so that runs which share a file do not mix their lines; a torn line is ended first."""
        entry = f"{at} {level:<7} mlxbatch[{os.getpid()}]: {text}\n"
        content = (b"\n" if self._torn else b"") + entry.encode("utf-8", "backslashreplace")
        file = self._open()
        try:
            taken = os.write(file, content)
            self._torn = taken < len(content)
            if self._torn:
                os.write(file, content[taken:])
                self._torn = False
        finally:
            os.close(file)

    def _open(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
