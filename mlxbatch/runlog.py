"""What happened in a run, event by event, in `OUT/.mlxbatch/runs/<id>.jsonl`.

One JSON object a line, each with `event` and `t`, seconds since the run began (on `time.monotonic`, which the engine's
process shares). Events, in order: `start` once, `plan` when the engine is loaded, then `span` (one stage's work on one
batch: stage, begin, end, rows) and `item` as they come, `end` once. A log without an `end` is of a run that was killed.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mlxbatch.disk import cause
from mlxbatch.errors import SetupError, show
from mlxbatch.plan import padding_ratio
from mlxbatch.state import state_folder
from mlxbatch.types import Done, Failed, Planned, Readings, Result, Skipped


def new_run_id() -> str:
    """Sorts by time: "20261130T221500Z-3fa9c1"."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def log_path(output_root: Path, run_id: str) -> Path:
    return output_root / ".mlxbatch" / "runs" / f"{run_id}.jsonl"


def result_record(result: Result) -> dict[str, Any]:
    """One item's outcome as what json.dumps takes; `status` is "done", "failed" or "skipped"."""
    record: dict[str, Any] = {"source": show(result.item.source)}
    match result:
        case Done():
            record |= {"status": "done", "outputs": [show(path) for path in result.paths], "seconds": result.seconds}
            record |= {"windows": len(result.windows), "warnings": list(result.warnings)}
        case Failed():
            record |= {"status": "failed", "stage": result.stage, "error": show(result.error)}
        case Skipped():
            record |= {"status": "skipped", "why": result.why}
    return record


class RunLog:
    """The open log of one run. Every line is written as it comes; SetupError where the disk does not take it."""

    def __init__(self, output_root: Path, run_id: str, clock: Callable[[], float] = time.monotonic) -> None:
        state_folder(output_root)
        self.path = log_path(output_root, run_id)
        self._clock, self._begin = clock, clock()
        try:
            self.path.parent.mkdir(exist_ok=True)
            # Unbuffered: closing after the disk was full has nothing left to write, and a kill loses no line.
            self._file = FileIO(self.path, "x")
        except OSError as error:
            raise self._unwritable(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def start(self, facts: Mapping[str, Any]) -> None:
        """How the run was begun: id, version, command, profile, model, sha."""
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
        """Any other event: "sample", "governor", "child", "leak", "group"."""
        self._write(kind, facts)

    def end(self, summary: Mapping[str, Any]) -> None:
        self._write("end", summary)

    def _write(self, event: str, facts: Mapping[str, Any]) -> None:
        entry = {"event": event, "t": round(self._clock() - self._begin, 6), **facts}
        line = memoryview(json.dumps(entry).encode("ascii") + b"\n")
        begin = self._file.tell()
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError as error:
            with suppress(OSError):  # a line that is cut off would take the next one with it
                self._file.truncate(begin)
                self._file.seek(begin)
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> SetupError:
        return SetupError(f"cannot write {show(self.path)}: {cause(error)}")
