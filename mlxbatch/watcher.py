"""Who is told what happens in a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlxbatch.types import Output, Planned, Readings
from mlxbatch.worker import Loaded


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

    def given_up(self, items: int) -> None:
        """So many of those were begun, and not finished in the grace after the time limit."""

    def event(self, kind: str, facts: Mapping[str, Any]) -> None:
        """What was seen of the machine, and done about it; facts as JSON can hold them.

        `kind` is "sample", "governor", "load", "child", "switch", "leak" or "group"; docs/logs-and-metrics.md has their
        facts.
        """
