"""A stream from beginning to end: pieces to the host, and what comes back told in the order of time."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from mlxbatch import budget
from mlxbatch.governor import Room
from mlxbatch.headerless import DEFAULTS, Rules
from mlxbatch.host import EngineHost
from mlxbatch.machine import read_machine
from mlxbatch.overseer import Overseer, Oversight
from mlxbatch.streaming.feed import Feed, Reading
from mlxbatch.streaming.order import Order, Told
from mlxbatch.streaming.pieces import FOLLOWING, Length
from mlxbatch.types import Item, TranscribeOptions
from mlxbatch.watcher import Watcher
from mlxbatch.wishes import options_for
from mlxbatch.worker import Event

# Seconds of sound that may fill a row: Whisper's window, and about what others hear at a time.
ROW_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """How a stream goes: `options` hold for every item that has no wishes of its own. See feed.Reading."""

    options: TranscribeOptions = field(default_factory=TranscribeOptions)
    batch_size: int = 8
    one_language: bool = True
    length: Length = FOLLOWING
    oversight: Oversight = field(default_factory=Oversight)
    headerless: Rules = field(default_factory=lambda: DEFAULTS)

    @property
    def ahead(self) -> float:
        """Seconds of each track that the engine may have: what fills its rows, and two pieces at least."""
        return max(2 * self.length.longest, ROW_SECONDS * self.batch_size)

    def options_for(self, item: Item) -> TranscribeOptions:
        return options_for(self.options, item)


def stream(
    items: Sequence[Item], host: EngineHost, settings: StreamSettings, watcher: Watcher
) -> Generator[Told, None, None]:
    """The recordings' segments one after the other as they are heard, each recording followed by how it ended.

    A piece that cannot be heard is a Failed, and the recording goes on. Nothing is remembered. Closing the generator
    early leaves no thread and no child behind, but one that waits for standard input. SetupError, Refused among them,
    where the engine cannot work.
    """
    host.start()
    loaded = host.load()
    watcher.loaded(loaded)
    needs = host.needs([settings.length.longest])
    (need,), fixed = needs.sizes, loaded.weights + needs.working
    rows = budget.slots(loaded.memory_limit, fixed, need, settings.batch_size)
    room = Room(loaded.memory_limit, loaded.weights, settings.batch_size, rows, needs.working)
    # Of a stream nobody keeps the text: another model would go on in the middle of it.
    oversight = replace(settings.oversight, policy=replace(settings.oversight.policy, fallback=False))
    overseer = Overseer(host, loaded, room, oversight, watcher.event, look=read_machine)
    overseer.needs(need)
    reading = Reading(
        settings.options_for,
        loaded.sample_rate,
        settings.ahead,
        settings.one_language,
        settings.length,
        settings.headerless,
    )
    order = Order()
    feed = Feed(items, reading, order)
    # Closed in reverse: who waits for a job is let go before the host waits for whoever that is.
    with closing(host.run(feed, overseer.allowance)) as events, closing(feed):
        for event in events:
            if isinstance(event, Event):
                order.take(event.output)
                feed.take(event.output)
            yield from order.told()
            overseer.see(event)
    order.give_up("the engine ended without a result")
    yield from order.told()
