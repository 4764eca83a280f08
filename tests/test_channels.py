"""Several jobs per recording: the real runner over the fake engine, from stereo files to one text each."""

from __future__ import annotations

import json
import multiprocessing
import threading
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from mlxbatch import pacing, reading, runner
from mlxbatch.audio import decode
from mlxbatch.host import Kind
from mlxbatch.ledger import Fresh, Infer, Ledger
from mlxbatch.pacing import Pace
from mlxbatch.runner import ModelKey
from mlxbatch.types import Done, Failed, Item, Result, TranscribeOptions, Wishes
from tests.test_runner import RATE, Place, kinds

both = pytest.mark.parametrize("kind", ["thread", "child"])
SPLIT = TranscribeOptions(channels="split")
BAD = 777  # frames of the recording that the engine does not stand


class Calls(Place):
    """Recordings of several channels, and wishes for some of them."""

    wishes: dict[str, Wishes]

    def call(self, name: str, channels: int = 2, frames: int = RATE) -> Path:
        path = self.root / "in" / f"{name}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(frames).standard_normal((frames, channels)) * 0.1
        soundfile.write(path, noise.astype(np.float32), RATE, subtype="FLOAT")
        return path

    @property
    def items(self) -> list[Item]:
        return [replace(item, wishes=self.wishes.get(item.id, Wishes())) for item in super().items]

    def settings(self, **changes: Any) -> runner.RunSettings:
        models = (ModelKey("m", lambda options: f"key {options}"),)
        return super().settings(**{"models": models, "options": SPLIT, **changes})

    def checksums(self, name: str, channels: Any = "split") -> list[str]:
        """Of the samples that an engine is to get."""
        item = next(one for one in self.items if one.id == name)
        return [f"{zlib.crc32(track.tobytes()):08x}" for track in decode(item, channels=channels).samples]


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[Calls]:
    before = set(threading.enumerate())
    made = Calls(tmp_path)
    made.wishes = {}
    made.fake["checksum"] = True
    yield made
    assert set(threading.enumerate()) <= before
    assert not multiprocessing.active_children()


def windows(result: Result) -> int:
    assert isinstance(result, Done)
    return len(result.windows)


@both
@pytest.mark.parametrize("workers", [0, 2])
def test_each_channel_is_heard_and_named(calls: Calls, kind: Kind, workers: int) -> None:
    calls.kind = kind
    calls.call("a")
    calls.call("six", 6, 2 * RATE)
    calls.call("mono", 1)
    calls.call("empty", 2, 0)
    results = calls.run(workers=workers, formats=("txt", "json"), speakers=("agent", "customer"))
    assert kinds(results) == dict.fromkeys(("a", "six", "mono", "empty"), "Done")
    agent, customer = calls.checksums("a")
    texts = calls.texts()
    assert texts["a.txt"] == f"agent: 1.00 seconds of sound {agent}\ncustomer: 1.00 seconds of sound {customer}\n"
    assert texts["mono.txt"] == f"1.00 seconds of sound {calls.checksums('mono')[0]}\n"
    assert texts["empty.txt"] == ""
    six = json.loads(texts["six.json"])["segments"]
    names = ["agent", "customer", "channel 2", "channel 3", "channel 4", "channel 5"]
    assert [(one["channel"], one["speaker"], one["text"][-8:]) for one in six] == [
        (number, name, checksum)
        for number, (name, checksum) in enumerate(zip(names, calls.checksums("six"), strict=True))
    ]
    assert (windows(results["a"]), windows(results["six"]), results["six"].seconds) == (2, 6, 2.0)  # type: ignore[union-attr]


def test_the_plan_counts_a_row_for_each_channel(calls: Calls) -> None:
    for number in range(3):
        calls.call(f"c{number}", frames=RATE - number)
    calls.run(batch_size=4)
    assert [(one.group, one.rows) for one in calls.diary.planned_items] == [(0, 2), (0, 2), (1, 2)]
    assert [facts["items"] for facts in calls.diary.of("group")] == [2, 1]


def test_one_channel_alone_and_one_that_is_not_there(calls: Calls) -> None:
    calls.call("a")
    calls.call("mono", 1)
    results = calls.run(options=TranscribeOptions(channels=1), formats=("txt", "json"), speakers=("agent", "customer"))
    assert calls.texts()["a.txt"] == f"customer: 1.00 seconds of sound {calls.checksums('a')[1]}\n"
    assert json.loads(calls.texts()["a.json"])["segments"][0]["channel"] == 1
    mono = results["mono"]
    assert isinstance(mono, Failed)
    assert (mono.stage, mono.error) == ("probe", "it has only channel 0, and channel 1 was asked for")


def test_a_header_that_promises_a_channel_too_many(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    calls.call("a")
    probe = reading.probe
    monkeypatch.setattr(reading, "probe", lambda item, rules: replace(probe(item, rules), channels=9))
    (failed,) = calls.run(options=TranscribeOptions(channels=5)).values()
    assert isinstance(failed, Failed)
    assert (failed.stage, failed.error) == ("decode", "it has only channels 0 to 1, and channel 5 was asked for")


def test_fewer_tracks_than_were_planned_are_no_obstacle(calls: Calls) -> None:
    """One voice saved as stereo."""
    path = calls.call("a", 1)
    samples, _ = soundfile.read(path)
    soundfile.write(path, np.stack([samples, -samples], axis=1), RATE, subtype="FLOAT")
    calls.call("b")
    results = calls.run(speakers=("agent", "customer"))
    assert kinds(results) == {"a": "Done", "b": "Done"}
    assert calls.texts()["a.txt"].startswith("1.00 seconds of sound ")
    assert (windows(results["a"]), results["a"].warnings[0][:40]) == (1, "the 2 channels have the same sound: it w")  # type: ignore[union-attr]


@pytest.mark.parametrize("channel", [0, 1, None])
def test_a_recording_fails_as_a_whole_by_one_channel_or_both(calls: Calls, channel: int | None) -> None:
    """Its child dies of it, again and again: the others, which were with it, are done."""
    calls.kind = "child"
    for number in range(5):
        calls.call(f"c{number}", frames=RATE - number)
    calls.call("bad", frames=BAD)
    calls.fake |= {"dies_on": BAD, "channel": channel}
    results = calls.run(batch_size=4)
    bad = results.pop("bad")
    assert isinstance(bad, Failed)
    assert (bad.stage, bad.quarantined) == ("infer", True)
    assert set(kinds(results).values()) == {"Done"}
    assert "bad.txt" not in calls.texts()
    assert calls.rows() == {**{f"c{number}": "done" for number in range(5)}, "bad": "quarantined"}
    for number in range(5):
        lines = calls.texts()[f"c{number}.txt"].splitlines()
        assert [line[-8:] for line in lines] == calls.checksums(f"c{number}")


@both
@pytest.mark.parametrize("workers", [0, 2])
def test_channels_that_need_too_much_memory_fail_once(calls: Calls, kind: Kind, workers: int) -> None:
    calls.kind = kind
    calls.call("long", 3, 4 * RATE)
    calls.call("a")
    calls.fake |= {"memory": 2 * 64_000}
    results = calls.run(workers=workers, prefetch_items=1)
    assert kinds(results) == {"long": "Failed", "a": "Done"}
    assert calls.rows() == {"long": "failed", "a": "done"}


def test_given_up_is_counted_by_recordings(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "GRACE", 0.3)
    paces: list[Pace] = []
    monkeypatch.setattr(runner, "Pace", lambda *limits: paces.append(Pace()) or paces[-1])
    calls.kind = "child"
    calls.call("a", 4)
    calls.fake["seconds_per_batch"] = 60.0
    told: list[int] = []
    monkeypatch.setattr(calls.diary, "given_up", told.append)
    calls.diary.when_planned = lambda: setattr(paces[-1], "stop_at", pacing.clock() + 0.3)
    with Ledger.open(calls.out) as ledger:
        assert list(calls.start(ledger, batch_size=1)) == []
        assert ledger.unfinished() == {("transcribe", "a")}
    assert told == [1]


# ---- names are rendering, channels are inference


def test_other_names_need_no_second_inference(calls: Calls) -> None:
    calls.call("a")
    first = calls.run()
    assert calls.texts()["a.txt"].startswith("channel 0: ")
    named = calls.run(speakers=("agent", "customer"))
    assert (windows(first["a"]), windows(named["a"])) == (2, 0)
    assert [line.split(":")[0] for line in calls.texts()["a.txt"].splitlines()] == ["agent", "customer"]
    assert kinds(calls.run(speakers=("agent", "customer"))) == {"a": "Skipped"}
    assert windows(calls.run()["a"]) == 0
    assert calls.texts()["a.txt"].startswith("channel 0: ")


def test_other_channels_do(calls: Calls) -> None:
    calls.call("a")
    calls.run()
    mixed = calls.run(options=TranscribeOptions())
    assert windows(mixed["a"]) == 1
    assert calls.texts()["a.txt"] == f"1.00 seconds of sound {calls.checksums('a', 'mix')[0]}\n"


def test_names_of_a_mix_render_nothing_anew(calls: Calls) -> None:
    calls.call("a")
    calls.call("b")
    calls.wishes = {"b": Wishes(channels="mix")}
    calls.run()
    assert kinds(calls.run(speakers=("agent", "customer"))) == {"a": "Done", "b": "Skipped"}


def test_each_recording_has_its_own_wishes(calls: Calls) -> None:
    for number, name in enumerate(("a", "b", "c")):
        calls.call(name, frames=RATE + number)
    calls.wishes = {"a": Wishes(language="de", channels=0, speakers=("x", "y")), "b": Wishes(channels="mix")}
    settings = {"speakers": ("agent", "customer"), "formats": ("txt", "json"), "options": replace(SPLIT, language="fr")}
    calls.run(**settings)
    texts = calls.texts()
    assert [json.loads(texts[f"{name}.json"])["language"] for name in ("a", "b", "c")] == ["de", "fr", "fr"]
    assert [texts[f"{name}.txt"].split(":")[0][:8] for name in ("a", "b", "c")] == ["x", "1.00 sec", "agent"]
    assert set(kinds(calls.run(**settings)).values()) == {"Skipped"}

    calls.wishes["b"] = Wishes(channels="mix", prompt="A call about a bill.")
    calls.wishes["a"] = Wishes(language="de", channels=0, speakers=("z",))
    again = calls.run(**settings)
    assert kinds(again) == {"a": "Done", "b": "Done", "c": "Skipped"}
    assert (windows(again["a"]), windows(again["b"])) == (0, 1)
    assert calls.texts()["a.txt"].startswith("z: ")


def test_what_would_be_done_is_what_is_done(calls: Calls) -> None:
    calls.call("a")
    calls.call("b")
    calls.run()
    calls.wishes = {"b": Wishes(language="de")}
    with Ledger.open(calls.out) as ledger:
        decisions = [runner.decide(item, ledger, calls.settings()) for item in calls.items]
    assert [type(decision) for decision in decisions] == [Fresh, Infer]
    assert kinds(calls.run()) == {"a": "Skipped", "b": "Done"}
