"""What happened in a run, event by event, in `OUT/.mlxbatch/runs/<id>.jsonl`.

One JSON object a line, each with `event` and `t`, seconds since the run began (on `time.monotonic`, which the engine's
process shares). Events, in order: `start` once, `plan` when the engine is loaded, then as they come `span` (one stage's
work on one batch: stage, begin, end, rows), `sample`, `governor`, `load`, `group`, `child`, `switch`, `leak` and
`item`, `end` once. Where the smaller model takes over there is another `plan`, of what is left, whose groups are
numbered anew. A log without an `end` is of a run that was killed, and its last line may be torn.
docs/logs-and-metrics.md has the keys.

Logs of earlier runs are kept, the newest N (`prune`).
"""

from __future__ import annotations

import platform
import re
import secrets
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mlxbatch import __version__
from mlxbatch.disk import cause
from mlxbatch.errors import SetupError, show
from mlxbatch.plan import padding_ratio
from mlxbatch.state import FOLDER, state_folder
from mlxbatch.types import Done, Failed, Planned, Readings, Result, Skipped

# What `new_run_id` makes, as a file's name.
_NAME = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6,8}\.jsonl")
# Packages that a result or a speed depends on.
_PACKAGES = ("mlx", "numpy")


def new_run_id() -> str:
    """Sorts by time, runs of one second too, by their microseconds in hex: "20261130T221500Z-3fa9c1e0"."""
    now = datetime.now(UTC)
    return f"{now:%Y%m%dT%H%M%SZ}-{now.microsecond:05x}{secrets.token_hex(2)[:3]}"


def log_path(output_root: Path, run_id: str) -> Path:
    return output_root / FOLDER / "runs" / f"{run_id}.jsonl"


def versions() -> dict[str, str | None]:
    """What runs here, by name; None where a package is not installed. Nothing is imported."""
    return {
        "mlxbatch": __version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in _PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def prune(keep: int, current: Path) -> list[str]:
    """Remove the logs of all runs but the newest `keep`, of which `current` is one whatever the clock says.

    Files that are no run's log stay. What could not be removed comes back, path and cause.
    """
    problems = []
    try:
        others = sorted(path for path in current.parent.iterdir() if path != current and _is_log(path))
    except OSError as error:
        return [f"{show(current.parent)}: {error.strerror or error}"]
    for path in others[: max(0, len(others) + 1 - keep)]:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            problems.append(f"{show(path)}: {error.strerror or error}")
    return problems


def _is_log(path: Path) -> bool:
    return _NAME.fullmatch(path.name) is not None and path.is_file() and not path.is_symlink()


def result_record(result: Result) -> dict[str, Any]:
    """One item's outcome as what json.dumps takes; `status` is "done", "failed" or "skipped"."""
    record: dict[str, Any] = {"source": show(result.item.source)}
    match result:
        case Done():
            record |= {"status": "done", "outputs": [show(path) for path in result.paths], "seconds": result.seconds}
            record |= {"windows": len(result.windows), "warnings": list(result.warnings)}
            record |= {"took": round(result.took, 6), "model": show(result.model)}
        case Failed():
            record |= {"status": "failed", "stage": result.stage, "error": show(result.error)}
            record |= {"quarantined": result.quarantined}
        case Skipped():
            record |= {"status": "skipped", "why": result.why, "quarantined": result.quarantined}
    return record


class RunLog:
    """The open log of one run. Every line is written as it comes; SetupError where the disk does not take it."""

    def __init__(self, output_root: Path, run_id: str, clock: Callable[[], float] = time.monotonic) -> None:
        import structlog  # not with the command line, whose --help shall be there at once

        state_folder(output_root)
        self.path = log_path(output_root, run_id)
        self._clock, self._begin = clock, clock()
        self._lines = _Lines(self.path)
        # default=None: what JSON cannot hold is an error of ours, not its repr.
        as_json = structlog.processors.JSONRenderer(default=None)
        kind = structlog.make_filtering_bound_logger("info")
        self._logger = structlog.wrap_logger(self._lines, [self._stamp, as_json], kind, dict).bind()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.close()

    def start(self, facts: Mapping[str, Any]) -> None:
        """How the run was begun: id, version, command, profile, model, sha, how many items were found."""
        self._write("start", {"at": datetime.now(UTC).isoformat(timespec="seconds"), **facts})

    def plan(self, planned: Sequence[Planned]) -> None:
        groups = len({one.group for one in planned})
        seconds = sum(one.probed.seconds for one in planned)
        facts = {"items": len(planned), "groups": groups, "seconds": seconds, "padding_ratio": padding_ratio(planned)}
        self._write("plan", facts)

    def spans(self, readings: Readings) -> None:
        for span in readings.spans:
            begin, end = (round(at - self._begin, 6) for at in (span.begin, span.end))
            self._write("span", {"stage": span.stage, "begin": begin, "end": end, "rows": span.rows})

    def item(self, result: Result) -> None:
        self._write("item", result_record(result))

    def event(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Any other event: "sample", "governor", "load", "child", "switch", "leak", "group"."""
        self._write(kind, facts)

    def end(self, summary: Mapping[str, Any]) -> None:
        self._write("end", summary)

    def _stamp(self, logger: object, method: str, entry: MutableMapping[str, Any]) -> Mapping[str, Any]:
        """The event and its time come first, for those who read the file itself."""
        return {"event": entry.pop("event"), "t": round(self._clock() - self._begin, 6), **entry}

    def _write(self, event: str, facts: Mapping[str, Any]) -> None:
        self._logger.info(event, **facts)


class _Lines:
    """The file below the log: what structlog calls with each finished line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(exist_ok=True)
            # Unbuffered: closing after the disk was full has nothing left to write, and a kill loses no line.
            self._file = FileIO(path, "x")
        except OSError as error:
            raise self._unwritable(error) from error

    def info(self, text: str) -> None:
        line = memoryview(text.encode("ascii") + b"\n")
        begin = self._file.tell()
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError as error:
            with suppress(OSError):  # a line that is cut off would take the next one with it
                self._file.truncate(begin)
                self._file.seek(begin)
            raise self._unwritable(error) from error

    def close(self) -> None:
        self._file.close()

    def _unwritable(self, error: OSError) -> SetupError:
        return SetupError(f"cannot write {show(self._path)}: {cause(error)}")
