"""Who comes when: the turn of each job, and the suspects, who come last and alone."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np

from mlxbatch.content import Fingerprint
from mlxbatch.feed import Feed, Prepared
from mlxbatch.pacing import Pace, clock
from mlxbatch.run_settings import RunSettings
from mlxbatch.types import Failed, Item, Planned, Probed, Recording

RATE = 16_000


def planned(*names: str) -> list[Planned]:
    return [Planned(Probed(Item(name, Path(name), Path(name)), 1.0, RATE, 1), 0) for name in names]


class Desk:
    """A feed whose decoding is noted; names that begin with "bad" fail."""

    def __init__(
        self, clear: list[Planned], suspects: list[Planned], pace: Pace | None = None, workers: int = 2
    ) -> None:
        self.decoded: list[str] = []
        settings = RunSettings(Path("out"), ("txt",), (), "txt", workers=workers)
        items = [one.probed.item for one in suspects]
        self.feed = Feed(clear, self.prepare, items, self.read, settings, pace or Pace())

    def read(self, item: Item) -> Prepared | Failed:
        (one,) = planned(item.id)
        return self.prepare(one)

    def prepare(self, one: Planned) -> Prepared | Failed:
        name = one.probed.item.id
        self.decoded.append(name)
        if name.startswith("bad"):
            return Failed(one.probed.item, "decode", "bad")
        return Prepared(one, Recording(np.zeros((1, RATE), np.float32), RATE), Fingerprint(0, 0, 0), "")


def test_a_suspect_is_decoded_only_once_all_else_is_done_with() -> None:
    desk = Desk(planned("a", "b"), planned("x", "y"))
    assert [next(desk.feed).item_id for _ in range(2)] == ["a", "b"]
    assert not desk.feed.ready()
    desk.feed.release(0)
    assert not desk.feed.ready()
    threading.Timer(0.3, desk.feed.release, [1]).start()
    began = time.monotonic()
    assert next(desk.feed).item_id == "x"
    assert time.monotonic() - began > 0.2
    assert (desk.decoded[2:], desk.feed.ready()) == (["x"], False)
    desk.feed.release(2)
    assert desk.feed.ready()
    assert next(desk.feed).item_id == "y"
    desk.feed.release(3)
    assert list(desk.feed) == []
    assert desk.feed.ready()
    desk.feed.close()


def test_a_suspect_that_cannot_be_decoded_is_put_aside_like_any_other() -> None:
    desk = Desk(planned("bad a"), planned("bad x", "y"))
    (job,) = list(desk.feed)
    assert job.item_id == "y"
    assert [failed.item.id for failed in desk.feed.aside] == ["bad a", "bad x"]
    desk.feed.close()


def test_after_the_time_limit_no_suspect_comes_either() -> None:
    desk = Desk(planned("a"), planned("x"), Pace(stop_at=clock() + 0.3))
    assert next(desk.feed).item_id == "a"
    assert list(desk.feed) == []
    assert desk.decoded == ["a"]
    desk.feed.close()


def test_closed_while_it_waits_for_the_others() -> None:
    desk = Desk(planned("a"), planned("x"))
    next(desk.feed)
    threading.Timer(0.2, desk.feed.close).start()
    assert list(desk.feed) == []
    assert desk.decoded == ["a"]


def test_serially_they_come_last_too() -> None:
    desk = Desk(planned("a", "b"), planned("x"), workers=0)
    found = []
    for job in desk.feed:
        found.append(job.item_id)
        desk.feed.release(job.id)
    assert found == ["a", "b", "x"]
