"""What an output root's ledger tells whoever asks, without a lock and while a run writes: runs and counts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mlxbatch.errors import SetupError, show
from mlxbatch.ledger_file import FILE, Database, damage, file_errors, open_for_reading
from mlxbatch.state import FOLDER


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run: `facts` are what it began with, `outcome` its summary. Without an end it is at work, or was killed.

    Times are UTC, in ISO 8601.
    """

    id: str
    started_at: str
    facts: dict[str, Any]
    ended_at: str | None
    outcome: dict[str, Any] | None


class History:
    """A ledger opened to be read, see `History.open`. Each answer is of the moment it is asked for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, output_root: Path) -> Self:
        """SetupError: there is no ledger, or it cannot be read. LedgerError: damaged, or of a newer version."""
        path = output_root / FOLDER / FILE
        if not path.exists():
            raise SetupError(f"no run has been at {show(output_root)}: there is no {show(path)}")
        with file_errors(path):
            return cls(open_for_reading(path))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """More than once is fine."""
        self._database.close()

    def runs(self) -> list[RunRow]:
        """All runs, the oldest first."""
        query = "SELECT id, started_at, facts, ended_at, outcome FROM runs ORDER BY started_at, rowid"
        return [
            RunRow(name, started, self._object(facts), ended, None if outcome is None else self._object(outcome))
            for name, started, facts, ended, outcome in self._database.fetch(query)
        ]

    def status(self) -> dict[str, int]:
        """How many items are "done", "failed" and "quarantined"."""
        found = self._database.fetch("SELECT status, count(*) FROM items GROUP BY status")
        return {"done": 0, "failed": 0, "quarantined": 0} | dict(found)

    def _object(self, text: str) -> dict[str, Any]:
        try:
            found = json.loads(text)
        except (ValueError, TypeError) as error:
            raise damage(self._database.path, f"a run's facts are no JSON: {error}") from error
        if not isinstance(found, dict):
            raise damage(self._database.path, "a run's facts are no JSON object")
        return found
