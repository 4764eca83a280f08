"""Pieces as jobs: in order, a bounded few ahead, each track in the language that it turned out to have."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from mlxbatch.streaming.feed import Feed, Reading
from mlxbatch.streaming.order import Heard, Order
from mlxbatch.streaming.pieces import Length
from mlxbatch.types import Failed, Item, Job, JobFailed, Output, TranscribeOptions, WindowStats

RATE = 16_000
LENGTH = Length(20.0, 40.0)
ENGLISH = TranscribeOptions(language="en")


def speechlike(seconds: float, tracks: int = 1, seed: int = 0) -> NDArray[np.float32]:
    """Noise with a pause of 2 s in every 10 s."""
    count = round(seconds * RATE)
    samples = 0.1 * np.random.default_rng(seed).standard_normal((count, tracks))
    samples[np.arange(count) % (10 * RATE) >= 8 * RATE] = 0
    return np.asarray(samples, np.float32)


def item(path: Path, samples: NDArray[np.float32]) -> Item:
    soundfile.write(path, samples, RATE, subtype="FLOAT")
    return Item(path.stem, path, Path(path.stem))


def reading(options: TranscribeOptions = ENGLISH, **settings: object) -> Reading:
    return replace(Reading(lambda item: options, RATE, 80.0, length=LENGTH), **settings)  # type: ignore[arg-type]


def done(job: Job, language: str | None = None) -> Output:
    return Output(job.id, 0, (), WindowStats(0.0, job.seconds, 0, 0.0), True, language)


def all_jobs(feed: Feed) -> list[Job]:
    """Each is done as soon as it is there."""
    found = []
    for job in feed:
        found.append(job)
        feed.take(done(job))
    return found


def ends(order: Order) -> list[Heard | Failed]:
    order.give_up("")
    return [one for one in order.told() if isinstance(one, Heard) or (isinstance(one, Failed) and one.error[0] != "f")]


def test_the_jobs_are_the_recordings_samples_in_order(tmp_path: Path) -> None:
    samples = [speechlike(95.0), speechlike(12.0, seed=1)]
    items = [item(tmp_path / f"{n}.wav", one) for n, one in enumerate(samples)]
    order = Order()
    jobs = all_jobs(Feed(items, reading(), order))
    assert [job.id for job in jobs] == list(range(len(jobs)))
    for one, sound in zip(items, samples, strict=True):
        mine = [job for job in jobs if job.item_id == one.id]
        np.testing.assert_array_equal(np.concatenate([job.samples for job in mine]), sound[:, 0])
        assert all(job.samples.flags.c_contiguous for job in mine)
        assert sum(job.seconds for job in mine) == len(sound) / RATE
    assert len(jobs) > 3
    assert [(end.item, end.seconds) for end in ends(order) if isinstance(end, Heard)] == [
        (items[0], 95.0),
        (items[1], 12.0),
    ]


def test_no_more_than_so_many_seconds_are_ahead_of_the_engine(tmp_path: Path) -> None:
    feed = Feed([item(tmp_path / "long.wav", speechlike(300.0))], reading(), Order())
    taken = []
    while feed.ready():
        taken.append(next(feed))
    assert 40 < sum(job.seconds for job in taken) <= 80
    feed.take(done(taken[0]))
    assert feed.ready()
    feed.close()


def test_a_piece_longer_than_what_may_be_ahead_goes_alone(tmp_path: Path) -> None:
    feed = Feed([item(tmp_path / "long.wav", speechlike(100.0))], reading(ahead=1.0), Order())
    first = next(feed)
    assert not feed.ready()
    feed.take(done(first))
    assert feed.ready()
    feed.close()


def test_whoever_waits_is_let_go(tmp_path: Path) -> None:
    feed = Feed([item(tmp_path / "long.wav", speechlike(100.0))], reading(ahead=1.0), Order())
    next(feed)
    waiting = threading.Thread(target=lambda: next(feed, None))
    waiting.start()
    feed.close()
    waiting.join(timeout=10)
    assert not waiting.is_alive()
    assert next(feed, None) is None


def languages(feed: Feed, detected: Sequence[str | None]) -> list[str | None]:
    """What each job is asked for, where the engine then detects these languages, one job after the other."""
    asked = []
    for job, language in zip(feed, detected, strict=False):
        asked.append(job.options.language)
        feed.take(done(job, job.options.language or language))
    feed.close()
    return asked


def test_the_first_language_that_is_heard_holds_for_the_recording(tmp_path: Path) -> None:
    items = [item(tmp_path / f"{name}.wav", speechlike(75.0)) for name in "ab"]
    feed = Feed(items, reading(TranscribeOptions()), Order())
    found = languages(feed, [None, "de", "fr", "fr", "fr", "fr", "fr"])
    assert found == [None, None, "de", None, "fr", "fr"][: len(found)]
    assert len(found) >= 5


def test_a_piece_waits_for_the_language_of_the_one_before(tmp_path: Path) -> None:
    feed = Feed([item(tmp_path / "a.wav", speechlike(75.0))], reading(TranscribeOptions()), Order())
    first = next(feed)
    assert not feed.ready()
    feed.take(replace(done(first), last=False, language="de"))
    assert feed.ready(), "its first window has told"
    assert next(feed).options.language == "de"
    feed.close()


def test_where_each_piece_has_its_own_language_none_waits(tmp_path: Path) -> None:
    feed = Feed([item(tmp_path / "a.wav", speechlike(75.0))], reading(TranscribeOptions(), one_language=False), Order())
    next(feed)
    assert feed.ready()
    feed.close()


def test_each_channel_is_a_job_and_has_a_language_of_its_own(tmp_path: Path) -> None:
    options = TranscribeOptions(channels="split")
    sound = np.concatenate([speechlike(75.0, seed=1), speechlike(75.0, seed=2)], axis=1)
    feed = Feed([item(tmp_path / "call.wav", sound)], reading(options), Order())
    agent, customer = next(feed), next(feed)
    assert (agent.channel, customer.channel) == (0, 1)
    assert len(agent.samples) == len(customer.samples)
    feed.take(done(agent, "de"))
    assert not feed.ready(), "the customer's is not known"
    feed.take(done(customer, "fr"))
    assert [next(feed).options.language, next(feed).options.language] == ["de", "fr"]
    feed.close()


def test_what_cannot_be_read_is_told_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("no sound at all, but words")
    (tmp_path / "nothing.wav").write_bytes(b"")
    bad = [Item(name, tmp_path / f"{name}.wav", Path(name)) for name in ("text", "nothing", "missing")]
    good = item(tmp_path / "good.wav", speechlike(5.0))
    empty = item(tmp_path / "empty.wav", speechlike(0.0))
    order = Order()
    jobs = all_jobs(Feed([bad[0], good, bad[1], empty, bad[2]], reading(), order))
    assert [job.item_id for job in jobs] == ["good"]
    found = ends(order)
    assert [(one.item.id, type(one).__name__) for one in found] == [
        ("text", "Failed"),
        ("good", "Heard"),
        ("nothing", "Failed"),
        ("empty", "Heard"),
        ("missing", "Failed"),
    ]
    assert [one.error for one in found if isinstance(one, Failed)][1:] == ["empty file (0 bytes)", "no such file"]


def test_a_channel_that_is_not_there_fails_that_recording(tmp_path: Path) -> None:
    order = Order()
    feed = Feed([item(tmp_path / "a.wav", speechlike(5.0))], reading(TranscribeOptions(channels=3)), order)
    assert all_jobs(feed) == []
    (failed,) = ends(order)
    assert isinstance(failed, Failed)
    assert failed.error == "it has only channel 0, and channel 3 was asked for"


@pytest.mark.parametrize("failure", [False, True])
def test_a_job_is_done_with_when_it_failed_too(tmp_path: Path, failure: bool) -> None:
    feed = Feed([item(tmp_path / "long.wav", speechlike(100.0))], reading(ahead=1.0), Order())
    first = next(feed)
    feed.take(JobFailed(first.id, "bad") if failure else done(first))
    assert feed.ready()
    feed.close()
