"""The user's files on their way in, under marks in the ledger: headers, then whole recordings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from mlxbatch.audio import decode
from mlxbatch.errors import ItemError, item_stage
from mlxbatch.feed import Prepared
from mlxbatch.ledger import Ledger, content_hash, fingerprint
from mlxbatch.probe import probe
from mlxbatch.run_settings import RunSettings
from mlxbatch.types import Failed, Item, Planned, Probed

# The group of a recording that is read and done by itself.
NO_GROUP = -1

T = TypeVar("T")


def attempt(item: Item, work: Callable[[], T]) -> T | Failed:
    """The one place where an item's error becomes a value."""
    try:
        return work()
    except ItemError as error:
        return Failed(item, error.stage, error.cause)


class Reader:
    """Reads for one run, on any thread. What may end the program is marked in the ledger while it is read."""

    def __init__(self, ledger: Ledger, settings: RunSettings) -> None:
        self._ledger, self._settings = ledger, settings
        self.sample_rate = 16_000  # in Hz, what the engine hears

    def headers(self, items: Sequence[Item]) -> list[Probed | Failed]:
        """Under one mark. A header fails also where what is asked of the recording cannot be done with it."""
        with self._ledger.at_risk(items):
            return [attempt(item, lambda item=item: self._planned(item).probed) for item in items]  # type: ignore[misc]

    def recording(self, planned: Planned) -> Prepared | Failed:
        item = planned.probed.item
        with self._ledger.at_risk([item]):
            return attempt(item, lambda: self._decoded(planned))

    def suspect(self, item: Item) -> Prepared | Failed:
        """The same from the header on, of one that belongs to no group."""
        with self._ledger.at_risk([item]):
            return attempt(item, lambda: self._decoded(self._planned(item)))

    def _planned(self, item: Item) -> Planned:
        probed = probe(item, self._settings.headerless)
        return Planned(probed, NO_GROUP, self._settings.rows(probed))

    def _decoded(self, planned: Planned) -> Prepared:
        """The file's identity comes first: a later change shows then."""
        item = planned.probed.item
        with item_stage(item.source, "decode"):
            mark, digest = fingerprint(item.source), content_hash(item.source)
            channels = self._settings.options_for(item).channels
            recording = decode(item, self.sample_rate, channels, self._settings.headerless)
            return Prepared(planned, recording, mark, digest)
