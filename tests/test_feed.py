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


def planned(*names: str, rows: int = 1) -> list[Planned]:
    return [Planned(Probed(Item(name, Path(name), Path(name)), 1.0, RATE, rows), 0, rows) for name in names]


class Desk:
    """A feed whose decoding is noted; names that begin with "bad" fail."""

    def __init__(
        self,
        clear: list[Planned],
        suspects: list[Planned],
        pace: Pace | None = None,
        workers: int = 2,
        prefetch_bytes: int = 10**9,
        sample_rate: int = RATE,
    ) -> None:
        self.decoded: list[str] = []
        settings = RunSettings(Path("out"), ("txt",), (), "txt", workers=workers, prefetch_bytes=prefetch_bytes)
        self._suspects = {one.probed.item.id: one for one in suspects}
        items = [one.probed.item for one in suspects]
        self.feed = Feed(clear, self.prepare, items, self.read, settings, pace or Pace(), sample_rate)

    def read(self, item: Item) -> Prepared | Failed:
        return self.prepare(self._suspects[item.id])

    def prepare(self, one: Planned) -> Prepared | Failed:
        name = one.probed.item.id
        self.decoded.append(name)
        if name.startswith("bad"):
            return Failed(one.probed.item, "decode", "bad")
        samples = np.arange(one.rows * RATE, dtype=np.float32).reshape(one.rows, RATE)
        channels = tuple(range(one.rows)) if one.rows > 1 else (None,)
        return Prepared(one, Recording(samples, RATE, channels), Fingerprint(0, 0, 0), "")


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


def test_each_channel_is_a_job_of_its_own() -> None:
    desk = Desk(planned("a", "b", rows=2), [])
    jobs = [next(desk.feed) for _ in range(4)]
    assert [(job.id, job.item_id, job.channel) for job in jobs] == [(0, "a", 0), (1, "a", 1), (2, "b", 0), (3, "b", 1)]
    assert [int(job.samples[0]) for job in jobs] == [0, RATE, 0, RATE]
    assert all(job.samples.flags.c_contiguous for job in jobs)
    desk.feed.close()


def test_a_recording_that_has_begun_comes_to_its_end_after_the_time_limit() -> None:
    pace = Pace()
    desk = Desk(planned("a", "b", rows=3), [], pace)
    assert next(desk.feed).channel == 0
    pace.stop_at = clock()
    assert desk.feed.ready()
    assert [(job.item_id, job.channel) for job in desk.feed] == [("a", 1), ("a", 2)]
    assert desk.feed.ready()
    desk.feed.close()


def test_a_closed_feed_keeps_the_other_channels_to_itself() -> None:
    desk = Desk(planned("a", rows=2), [])
    next(desk.feed)
    desk.feed.close()
    assert list(desk.feed) == []


def test_a_place_in_the_prefetch_is_for_all_channels_and_given_back_with_the_last() -> None:
    """Room for the four channels of one recording, and no more."""
    desk = Desk(planned("a", "b", rows=4), [], prefetch_bytes=4 * 4 * RATE)
    for _ in range(4):
        next(desk.feed)
    for number in (2, 0, 3):
        desk.feed.release(number)
        assert not desk.feed.ready()
    assert desk.decoded == ["a"]
    desk.feed.release(1)
    assert next(desk.feed).item_id == "b"
    desk.feed.close()


def test_a_place_in_the_prefetch_is_counted_at_the_engine_s_rate() -> None:
    """Room for two recordings of a second at 16 kHz, of which one at 24 kHz takes more than a half."""
    desk = Desk(planned("a", "b"), [], prefetch_bytes=2 * 4 * 16_000, sample_rate=24_000)
    next(desk.feed)
    assert not desk.feed.ready()
    assert desk.decoded == ["a"]
    desk.feed.release(0)
    assert next(desk.feed).item_id == "b"
    desk.feed.close()
    slower = Desk(planned("a", "b"), [], prefetch_bytes=2 * 4 * 16_000)
    assert [next(slower.feed).item_id for _ in range(2)] == ["a", "b"]
    slower.feed.close()


def test_a_suspect_waits_for_all_channels_of_the_one_before() -> None:
    desk = Desk([], planned("x", "y", rows=2))
    assert [next(desk.feed).channel for _ in range(2)] == [0, 1]
    desk.feed.release(0)
    assert not desk.feed.ready()
    desk.feed.release(1)
    assert desk.feed.ready()
    desk.feed.close()
