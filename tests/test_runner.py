"""The real runner over the fake engine: real files, a real ledger, both kinds of host."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from mlxbatch import pacing, reading, runner
from mlxbatch.disk import Room, Space
from mlxbatch.engines.base import EngineSpec, Jobs
from mlxbatch.errors import ItemError, MlxBatchError, SetupError
from mlxbatch.governor import Policy
from mlxbatch.host import EngineHost, Kind, make_host
from mlxbatch.ledger import Fresh, Infer, Ledger
from mlxbatch.overseer import Oversight
from mlxbatch.pacing import Pace
from mlxbatch.runner import ModelKey, RunSettings, Watcher, transcribe
from mlxbatch.types import (
    Allowance,
    Done,
    Failed,
    Item,
    JobFailed,
    Output,
    Planned,
    Readings,
    Recording,
    Result,
    Segment,
    Skipped,
    WindowStats,
)
from mlxbatch.worker import Event, Loaded, Needs
from mlxbatch.writers.plain import render_txt

RATE = 16_000
BAD = 777  # samples of the recording that the engine does not stand
both = pytest.mark.parametrize("kind", ["thread", "child"])


class Diary(Watcher):
    """What a run told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.planned_items: list[Planned] = []
        self.windows: list[int] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.left_items: int | None = None
        self.rows: list[int] = []
        self.when_planned: Callable[[], None] = lambda: None

    def starting(self, items: int) -> None:
        self.told.append(f"starting {items}")

    def loaded(self, loaded: Loaded) -> None:
        self.told.append("loaded")

    def planned(self, planned: Sequence[Planned]) -> None:
        self.planned_items = list(planned)
        self.when_planned()

    def left(self, items: int) -> None:
        self.left_items = items

    def readings(self, readings: Readings) -> None:
        self.rows += [span.rows for span in readings.spans]

    def window(self, planned: Planned, output: Output) -> None:
        self.windows.append(output.window)

    def event(self, kind: str, facts: Mapping[str, Any]) -> None:
        self.events.append((kind, dict(facts)))

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The facts of all events of a kind."""
        return [facts for name, facts in self.events if name == kind]


@dataclass
class Place:
    """Recordings below in/, results below out/, and a fake engine with settings of its own."""

    root: Path
    kind: Kind = "thread"
    fake: dict[str, Any] = field(default_factory=dict)
    diary: Diary = field(default_factory=Diary)

    @property
    def out(self) -> Path:
        return self.root / "out"

    def write(self, name: str, samples: int = RATE) -> Path:
        path = self.root / "in" / f"{name}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(samples).standard_normal(samples) * 0.1
        soundfile.write(path, noise.astype(np.float32), RATE, subtype="FLOAT")
        return path

    def write_many(self, count: int, *, bad: int | None = None) -> None:
        """f00, f01 ...: each a little shorter than the one before, so that the plan keeps their order."""
        for number in range(count):
            self.write(f"f{number:02}", BAD if number == bad else RATE - number)

    @property
    def items(self) -> list[Item]:
        files = sorted((self.root / "in").rglob("*.wav"))
        names = [path.relative_to(self.root / "in").with_suffix("") for path in files]
        return [Item(str(name), path, name) for path, name in zip(files, names, strict=True)]

    def settings(self, **changes: Any) -> RunSettings:
        formats = changes.get("formats", ("txt",))
        keys = {"models": (ModelKey("m", lambda options: "key"),), "rendering_key": " ".join(formats)}
        return RunSettings(**{"output": self.out, "formats": formats, "batch_size": 4, **keys, **changes})

    def host(self, batch_size: int = 4) -> EngineHost:
        return make_host(EngineSpec("fake", batch_size=batch_size, extra=self.fake), self.kind)

    def start(self, ledger: Ledger, host: EngineHost | None = None, **changes: Any) -> Iterator[Result]:
        settings = self.settings(**changes)
        return transcribe(self.items, [host or self.host(settings.batch_size)], ledger, settings, self.diary)

    def run(self, host: EngineHost | None = None, **changes: Any) -> dict[str, Result]:
        """All results by item; each item has exactly one."""
        self.diary = Diary()
        with Ledger.open(self.out) as ledger:
            results = list(self.start(ledger, host, **changes))
        assert sorted(result.item.id for result in results) == sorted(item.id for item in self.items)
        return {result.item.id: result for result in results}

    def rows(self) -> dict[str, str]:
        """The ledger's rows: item -> status."""
        database = sqlite3.connect(self.out / ".mlxbatch" / "ledger.sqlite3")
        try:
            return dict(database.execute("SELECT id, status FROM items"))
        finally:
            database.close()

    def texts(self) -> dict[str, str]:
        """All files that lie in the output, without the run's own state."""
        files = [path for path in self.out.rglob("*") if path.is_file() and ".mlxbatch" not in path.parts]
        return {str(path.relative_to(self.out)): path.read_text("utf-8") for path in files}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    before = set(threading.enumerate())
    yield Place(tmp_path)
    assert set(threading.enumerate()) <= before
    assert not multiprocessing.active_children()


def kinds(results: dict[str, Result]) -> dict[str, str]:
    return {name: type(result).__name__ for name, result in results.items()}


# ---- what comes out


@both
@pytest.mark.parametrize("workers", [0, 2])
def test_every_recording_becomes_a_text(place: Place, kind: Kind, workers: int) -> None:
    place.kind = kind
    place.write("a", 2 * RATE)
    place.write("sub/b")
    place.write("empty", 0)
    results = place.run(workers=workers, formats=("txt", "json"))
    assert kinds(results) == {"a": "Done", "sub/b": "Done", "empty": "Done"}
    done = results["sub/b"]
    assert isinstance(done, Done)
    assert done.paths == (place.out / "sub/b.txt", place.out / "sub/b.json")
    assert (done.seconds, len(done.windows)) == (1.0, 1)
    texts = place.texts()
    assert texts["a.txt"] == "2.00 seconds of sound\n"
    assert sorted(texts) == ["a.json", "a.txt", "empty.json", "empty.txt", "sub/b.json", "sub/b.txt"]
    assert place.rows() == {"a": "done", "sub/b": "done", "empty": "done"}
    assert list((place.out / ".mlxbatch" / "tmp").iterdir()) == []


@both
def test_a_recording_that_cannot_be_read(place: Place, kind: Kind) -> None:
    """One by its header, one only when it is decoded, in the middle of others; the rest is done."""
    place.kind = kind
    place.write_many(6)
    (place.root / "in" / "f02.wav").write_bytes(b"no sound at all")
    whole = place.write("f03", RATE - 3)
    broken = whole.with_suffix(".flac")
    soundfile.write(broken, np.zeros(RATE - 3, np.float32), RATE)
    header = broken.read_bytes()
    whole.write_bytes(header[:60] + b"\xff" * 4000)
    results = place.run()
    assert kinds(results) == {f"f0{n}": "Failed" if n in (2, 3) else "Done" for n in range(6)}
    stages = {name: result.stage for name, result in results.items() if isinstance(result, Failed)}
    assert stages == {"f02": "probe", "f03": "decode"}
    assert place.rows() == {f"f0{n}": "failed" if n in (2, 3) else "done" for n in range(6)}


def test_where_nothing_can_be_probed_no_engine_is_waited_for(place: Place) -> None:
    place.write("a").write_bytes(b"no sound at all")
    place.fake["load_seconds"] = 60.0
    place.kind = "child"
    began = time.monotonic()
    assert kinds(place.run()) == {"a": "Failed"}
    assert time.monotonic() - began < 20
    assert "loaded" not in place.diary.told


def test_all_undecodable(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(item: Item, *asked: Any) -> Recording:
        raise ItemError(item.source, "decode", "broken")

    monkeypatch.setattr(reading, "decode", decode)
    place.write_many(5)
    assert kinds(place.run(prefetch_items=1)) == {f"f0{n}": "Failed" for n in range(5)}


def test_a_recording_too_long_for_the_memory(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    decode = reading.decode

    def greedy(item: Item, *asked: Any) -> Recording:
        if item.id == "f01":
            np.empty(1 << 50)
        return decode(item, *asked)

    monkeypatch.setattr(reading, "decode", greedy)
    place.write_many(3)
    results = place.run()
    assert kinds(results) == {"f00": "Done", "f01": "Failed", "f02": "Done"}
    failed = results["f01"]
    assert isinstance(failed, Failed)
    assert (failed.stage, failed.error[:35]) == ("decode", "too long for this machine's memory:")


def test_a_job_that_the_engine_gives_up(place: Place) -> None:
    place.write_many(3)
    place.write("long", 9 * RATE)
    place.fake["memory"] = 5 * 64_000
    results = place.run()
    failed = results["long"]
    assert isinstance(failed, Failed)
    assert failed.stage == "infer"
    assert failed.error.startswith("needs more memory than there is")
    assert sum(isinstance(result, Done) for result in results.values()) == 3
    assert place.rows()["long"] == "failed"


# ---- a second run


def test_the_second_run_has_nothing_to_do(place: Place) -> None:
    place.write_many(3)
    place.run()
    results = place.run()
    assert all(isinstance(result, Skipped) and result.why.startswith("done on ") for result in results.values())
    assert place.diary.told == [], "no engine was started"


def test_a_further_format_needs_no_engine(place: Place) -> None:
    place.write_many(3)
    place.run()
    results = place.run(formats=("txt", "srt"))
    assert kinds(results) == {f"f0{n}": "Done" for n in range(3)}
    assert all(isinstance(result, Done) and not result.windows for result in results.values())
    assert sorted(place.texts()) == sorted(f"f0{n}.{suffix}" for n in range(3) for suffix in ("txt", "srt"))
    assert place.diary.told == []


def test_force_does_all_again(place: Place) -> None:
    place.write_many(3)
    place.run()
    assert kinds(place.run(force=True)) == {f"f0{n}": "Done" for n in range(3)}
    assert place.diary.told == ["starting 3", "loaded"]


def test_only_what_changed_is_done_again(place: Place) -> None:
    place.write_many(5)
    place.run()
    os.utime(place.root / "in" / "f00.wav", (1, 1))
    place.write("f01", 3 * RATE)
    (place.out / "f02.txt").unlink()
    (place.out / "f03.txt").write_text("cut")
    results = place.run()
    assert kinds(results) == {"f00": "Skipped", "f01": "Done", "f02": "Done", "f03": "Done", "f04": "Skipped"}
    assert place.diary.told == ["starting 1", "loaded"], "only f01 needs the engine"
    assert place.texts()["f01.txt"] == "3.00 seconds of sound\n"
    assert place.texts()["f02.txt"] == place.texts()["f03.txt"] == "1.00 seconds of sound\n"
    assert set(kinds(place.run()).values()) == {"Skipped"}


def test_what_failed_is_tried_again(place: Place) -> None:
    path = place.write("a")
    path.write_bytes(b"no sound at all")
    assert kinds(place.run()) == {"a": "Failed"}
    place.write("a")
    assert kinds(place.run()) == {"a": "Done"}
    assert place.rows() == {"a": "done"}


# ---- crashes


def test_a_recording_that_kills_the_engine(place: Place) -> None:
    place.kind = "child"
    place.write_many(10, bad=4)
    place.fake |= {"dies_on": BAD, "signal": int(signal.SIGSEGV)}
    results = place.run(prefetch_items=3)
    assert kinds(results) == {f"f0{n}": "Failed" if n == 4 else "Done" for n in range(10)}
    failed = results["f04"]
    assert isinstance(failed, Failed)
    assert (failed.stage, "killed by SIGSEGV" in failed.error) == ("infer", True)


def test_an_engine_killed_from_outside(place: Place) -> None:
    place.kind = "child"
    place.write_many(12)
    place.fake["seconds_per_batch"] = 0.1
    results: list[Result] = []
    with Ledger.open(place.out) as ledger:
        for result in place.start(ledger, prefetch_items=4):
            if not results:
                (child,) = multiprocessing.active_children()
                child.kill()
            results.append(result)
    assert [type(result) for result in results] == [Done] * 12
    assert place.rows() == {f"f{n:02}": "done" for n in range(12)}


def test_a_recording_that_keeps_the_engine_for_ever(place: Place) -> None:
    """No step for as long as the patience lasts: the process is replaced, the one at fault is found."""
    place.write_many(5, bad=2)
    place.fake["hangs_on"] = BAD
    spec = EngineSpec("fake", batch_size=4, extra=place.fake)
    results = place.run(make_host(spec, "child", stall_timeout=1.0))
    assert kinds(results) == {"f00": "Done", "f01": "Done", "f02": "Failed", "f03": "Done", "f04": "Done"}
    failed = results["f02"]
    assert isinstance(failed, Failed)
    assert (failed.error, failed.quarantined) == ("the engine made no progress for 1 s", True)
    assert {facts["what"] for facts in place.diary.of("child")} == {"stalled"}


# ---- watched over


def test_what_is_told_of_memory_and_groups(place: Place) -> None:
    place.write_many(8)
    place.run()
    (first, *_), groups = place.diary.of("sample"), place.diary.of("group")
    assert {"active", "cache", "peak", "rss", "live", "rows", "share", "cpu", "available", "parent_rss"} <= set(first)
    assert [facts["group"] for facts in groups] == [1, 2]
    assert [facts["items"] for facts in groups] == [4, 4]
    assert [round(facts["seconds"], 1) for facts in groups] == [4.0, 4.0]
    assert place.diary.of("governor") == []


def test_a_group_counts_those_that_could_not_be_decoded(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    decode = reading.decode

    def second_is_broken(item: Item, *asked: Any) -> Recording:
        if item.id == "f01":
            raise ItemError(item.source, "decode", "broken")
        return decode(item, *asked)

    monkeypatch.setattr(reading, "decode", second_is_broken)
    place.write_many(4)
    place.run()
    assert [facts["items"] for facts in place.diary.of("group")] == [4]


def test_a_process_that_leaks_is_renewed_and_nothing_is_lost(place: Place) -> None:
    place.kind = "child"
    place.write_many(64)
    place.fake |= {"leaks": 10**6, "memory_limit": 100 * 10**6}
    results = place.run(oversight=Oversight(leak_bound="8MB"), batch_size=1)
    assert set(kinds(results).values()) == {"Done"}
    leak = place.diary.of("leak")[0]
    assert (leak["what"], leak["per_group"], leak["bound"]) == ("active", 10**6, 8 * 10**6)
    assert {facts["what"] for facts in place.diary.of("child")} == {"renewed"}


def test_at_90_percent_the_smaller_model_takes_over(place: Place) -> None:
    """A table of sizes: the large model's weights leave no room for its rows, which the small one's do."""
    place.kind = "child"
    place.write_many(12)
    large = {"weights": 850, "bytes_per_second": 60, "memory_limit": 1000, "seconds_per_batch": 0.05}
    small = {"weights": 100, "bytes_per_second": 20, "memory_limit": 1000}
    hosts = [make_host(EngineSpec("fake", batch_size=4, extra=extra), "child") for extra in (large, small)]
    models = (ModelKey("large", lambda options: "key large"), ModelKey("small", lambda options: "key small"))
    settings = place.settings(models=models, oversight=Oversight(Policy(fallback=True)))
    with Ledger.open(place.out) as ledger:
        results = list(transcribe(place.items, hosts, ledger, settings, place.diary))
        assert not multiprocessing.active_children(), "the large one's process is gone, and so is the small one's"
        assert all(isinstance(runner.decide(item, ledger, settings), Fresh) for item in place.items)
        strict = place.settings(models=models[:1])
        again = [item.id for item in place.items if isinstance(runner.decide(item, ledger, strict), Infer)]
    assert {type(result) for result in results} == {Done}
    assert sorted(result.item.id for result in results) == [item.id for item in place.items]
    by_model = {
        model: {one.item.id for one in results if isinstance(one, Done) and one.model == model}
        for model in ("large", "small")
    }
    assert len(by_model["small"]) > 6
    assert again == sorted(by_model["small"]), "without the fallback they are done again by the model asked for"
    assert "fallback" in [facts["step"] for facts in place.diary.of("governor")]


def test_what_is_finished_is_kept_when_its_readings_end_the_run(place: Place) -> None:
    """The output that comes with the reading that is too much is a result like any other."""
    place.kind = "child"
    place.write_many(3)
    place.fake |= {"weights": 500, "bytes_per_second": 450, "memory_limit": 1000}
    with Ledger.open(place.out) as ledger:
        run = place.start(ledger, batch_size=1, oversight=Oversight(Policy(refuse=True)))
        with pytest.raises(SetupError, match="--on-pressure refuse"):
            list(run)
    assert place.rows() == {"f00": "done"}


def test_refusing_ends_the_run_with_what_is_finished(place: Place) -> None:
    place.kind = "child"
    place.write_many(12)
    place.fake |= {"weights": 850, "bytes_per_second": 60, "memory_limit": 1000, "seconds_per_batch": 0.05}
    with Ledger.open(place.out) as ledger:
        run = place.start(ledger, batch_size=1, oversight=Oversight(Policy(refuse=True)))
        with pytest.raises(SetupError, match=r"memory is at 9\d% of .*--on-pressure refuse"):
            list(run)
    assert not multiprocessing.active_children()
    assert place.diary.of("governor")[-1]["step"] == "refuse"


class Scripted(EngineHost):
    """A host that says what it is told to: (job, window, last) or (job, cause)."""

    def __init__(self, script: Sequence[tuple[int, int, bool] | tuple[int, str]]) -> None:
        super().__init__(EngineSpec("fake"))
        self.script = script
        self.closed = False

    def start(self) -> None:
        pass

    def load(self) -> Loaded:
        return Loaded(0, 10**9, RATE, Readings())

    def needs(self, seconds: Sequence[float]) -> Needs:
        return Needs([1 for _ in seconds], 0)

    def allow(self, allowance: Allowance) -> None:
        pass

    def renew(self) -> None:
        pass

    def run(self, jobs: Jobs, allowance: Allowance) -> Any:
        list(jobs)
        for number, line in enumerate(self.script):
            yield Event(JobFailed(*line) if len(line) == 2 else _window(number, *line), Readings())

    def interrupt(self, error: MlxBatchError) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True


def _window(number: int, job: int, window: int, last: bool) -> Output:
    segment = Segment(window, window + 1, f"event {number} window {window}.")
    return Output(job, window, (segment,), WindowStats(window, 1.0, 1, 0.1), last, "en" if window else None)


def scripted(place: Place, *script: tuple[int, int, bool] | tuple[int, str]) -> dict[str, Result]:
    host = Scripted(script)
    results = place.run(host)
    assert host.closed
    return results


def test_windows_come_in_any_order_across_recordings(place: Place) -> None:
    place.write_many(2)
    scripted(place, (1, 0, False), (0, 0, False), (1, 1, True), (0, 1, False), (0, 2, True))
    assert place.texts() == {
        "f00.txt": "event 1 window 0.\nevent 3 window 1.\nevent 4 window 2.\n",
        "f01.txt": "event 0 window 0.\nevent 2 window 1.\n",
    }


def test_windows_that_are_repeated_are_joined_once(place: Place) -> None:
    place.write("a")
    results = scripted(place, (0, 0, False), (0, 1, False), (0, 0, False), (0, 1, False), (0, 2, True))
    assert place.texts() == {"a.txt": "event 2 window 0.\nevent 3 window 1.\nevent 4 window 2.\n"}
    assert isinstance(results["a"], Done)
    assert len(results["a"].windows) == 3


def test_windows_of_a_longer_first_try_are_dropped(place: Place) -> None:
    place.write("a")
    scripted(place, (0, 0, False), (0, 1, False), (0, 2, False), (0, 0, False), (0, 1, True))
    assert place.texts() == {"a.txt": "event 3 window 0.\nevent 4 window 1.\n"}


def test_text_that_was_cut_off_is_a_warning(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one line, however many windows there are."""
    cut = lambda number, job, window, last: Output(  # noqa: E731
        job, window, (), WindowStats(30.0 * window, 30.0, 12, 0.1, cut=window != 1), last, "en"
    )
    monkeypatch.setattr("tests.test_runner._window", cut)
    place.write_many(2)
    results = scripted(place, (0, 0, True), *((1, window, window == 5) for window in range(6)))
    said = "cut off after 12 tokens, and what follows may be missing"
    assert [result.warnings for result in results.values() if isinstance(result, Done)] == [
        (f"the text of 1 window was {said} (window at 0:00)",),
        (f"the text of 5 windows was {said} (window at 0:00, 1:00, 1:30, ...)",),
    ]


def test_a_job_that_fails_after_some_windows_leaves_no_output(place: Place) -> None:
    place.write_many(2)
    results = scripted(place, (0, 0, False), (0, "NaN"), (1, 0, True))
    assert results["f00"] == Failed(place.items[0], "infer", "NaN")
    assert list(place.texts()) == ["f01.txt"]


def test_no_recording_gets_lost(place: Place) -> None:
    """An engine that ends without a word about one: that one failed."""
    place.write_many(2)
    results = scripted(place, (1, 0, True))
    assert results["f00"] == Failed(place.items[0], "infer", "the engine ended without a result")
    assert place.rows() == {"f00": "failed", "f01": "done"}


def test_a_model_that_does_not_load(place: Place) -> None:
    place.kind = "child"
    place.write_many(2)
    place.fake["no_such_setting"] = 1
    with Ledger.open(place.out) as ledger, pytest.raises(RuntimeError, match="no_such_setting"):
        list(place.start(ledger))


def test_an_output_that_cannot_be_written_ends_the_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(contents: object, scratch: Path) -> None:
        raise SetupError("the disk is full")

    place.kind = "child"
    place.write_many(4)
    monkeypatch.setattr(runner, "write_outputs", full)
    with Ledger.open(place.out) as ledger, pytest.raises(SetupError, match="the disk is full"):
        list(place.start(ledger))
    assert place.rows() == {}


# ---- streaming, bounds and the end


@both
def test_results_come_while_others_are_decoded(place: Place, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []
    decode = reading.decode

    def recorded(item: Item, *asked: Any) -> Recording:
        decoded.append(item.id)
        return decode(item, *asked)

    monkeypatch.setattr(reading, "decode", recorded)
    place.kind = kind
    place.write_many(10)
    with Ledger.open(place.out) as ledger:
        results = place.start(ledger, batch_size=1, prefetch_items=2)
        first = next(results)
        assert isinstance(first, Done)
        assert first.paths[0].exists()
        assert len(decoded) <= 4, "decoded ahead beyond the bound"
        assert len(list(results)) == 9
    assert sorted(decoded) == [item.id for item in place.items]


@both
@pytest.mark.parametrize("workers", [0, 2])
def test_closed_early(place: Place, kind: Kind, workers: int) -> None:
    """What is finished is in the ledger; the fixture sees to threads and children."""
    place.kind = kind
    place.write_many(60)
    place.fake["seconds_per_batch"] = 0.2
    with Ledger.open(place.out) as ledger:
        results = place.start(ledger, batch_size=1, prefetch_items=3, workers=workers)
        finished = [next(results), next(results)]
        began = time.monotonic()
        results.close()  # type: ignore[attr-defined]
        assert time.monotonic() - began < 10
        assert not multiprocessing.active_children()
    assert place.rows() == {result.item.id: "done" for result in finished}
    assert len(place.texts()) == 2
    again = place.run()
    assert [name for name, kind in kinds(again).items() if kind == "Skipped"] == [one.item.id for one in finished]


def hold_decoding(monkeypatch: pytest.MonkeyPatch, but: str = "") -> threading.Event:
    """Decoding waits for the event, of every item `but` one; the pipeline does not wait for it when it closes."""
    go_on = threading.Event()
    decode = reading.decode

    def slow(item: Item, *asked: Any) -> Recording:
        if item.id != but:
            go_on.wait(30)
        return decode(item, *asked)

    monkeypatch.setattr(reading, "decode", slow)
    monkeypatch.setattr("mlxbatch.pipeline.GRACE", 0.1)
    return go_on


def test_closed_while_it_decodes(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = hold_decoding(monkeypatch, but="f00")
    place.kind = "child"
    place.write_many(5)
    with Ledger.open(place.out) as ledger:
        results = place.start(ledger, prefetch_items=3)
        next(results)
        began = time.monotonic()
        results.close()  # type: ignore[attr-defined]
        assert time.monotonic() - began < 5
        assert not multiprocessing.active_children()
    go_on.set()
    end = time.monotonic() + 5
    while threading.active_count() > 1 and time.monotonic() < end:
        time.sleep(0.01)


@both
def test_a_plan_bigger_than_the_memory_still_runs(place: Place, kind: Kind) -> None:
    place.kind = kind
    place.write_many(6)
    place.fake["memory_limit"] = 1000
    results = place.run(prefetch_bytes=1)
    assert kinds(results) == {f"f0{n}": "Done" for n in range(6)}
    assert [one.group for one in place.diary.planned_items] == [0, 1, 2, 3, 4, 5]


@both
def test_samples_are_let_go_with_their_result(place: Place, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    samples: dict[str, weakref.ref[Any]] = {}
    decode = reading.decode

    def recorded(item: Item, *asked: Any) -> Recording:
        found = decode(item, *asked)
        samples[item.id] = weakref.ref(found.samples)
        return found

    monkeypatch.setattr(reading, "decode", recorded)
    place.kind = kind
    place.write_many(8)
    with Ledger.open(place.out) as ledger:
        for result in place.start(ledger, batch_size=1, prefetch_items=2):
            assert samples[result.item.id]() is None
            assert sum(one() is not None for one in samples.values()) <= 2


def test_the_text_is_the_transcript_s(place: Place) -> None:
    place.write("a")
    place.run()
    with Ledger.open(place.out) as ledger:
        decision = runner.decide(place.items[0], ledger, place.settings(formats=("srt",)))
    assert isinstance(decision, runner.Render)
    assert render_txt(decision.transcript, None) == place.texts()["a.txt"]


def test_a_rendering_that_fails_keeps_the_transcript(place: Place) -> None:
    """A directory is in the way of the new format; once it is gone the next run renders, without inference."""
    place.write("a")
    place.run()
    (place.out / "a.srt").mkdir()
    assert kinds(place.run(formats=("srt",))) == {"a": "Failed"}
    assert place.rows() == {"a": "done"}
    (place.out / "a.srt").rmdir()
    assert kinds(place.run(formats=("srt",))) == {"a": "Done"}
    assert place.diary.told == []
    assert "1.00 seconds of sound" in place.texts()["a.srt"]


# ---- room on the disk


def test_without_room_for_all_of_it_nothing_is_begun(place: Place) -> None:
    place.write_many(3)
    with Ledger.open(place.out) as ledger, pytest.raises(SetupError, match=r"disk of .*/out: .* needed"):
        list(place.start(ledger, min_free=10**18))
    assert "loaded" not in place.diary.told
    assert place.texts() == {}


@both
def test_a_disk_that_gets_full_ends_the_run_and_what_is_finished_stays(
    place: Place, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[Result] = []
    room = lambda path: Room(10**9 if len(results) < 2 else 10**5, None)  # noqa: E731
    now = iter(range(0, 10**6, 10))
    space = lambda root, min_free: Space(root, min_free, clock=lambda: next(now), free=room)  # noqa: E731
    monkeypatch.setattr(runner, "Space", space)
    place.kind = kind
    place.write_many(6)
    with Ledger.open(place.out) as ledger, pytest.raises(SetupError, match=r"disk of .*: 0 MB free, 100 MB needed"):
        results.extend(place.start(ledger, batch_size=1, min_free=10**8))
    assert [result.item.id for result in results] == ["f00", "f01"]
    assert place.rows() == {"f00": "done", "f01": "done"}
    monkeypatch.undo()
    assert sorted(kinds(place.run()).values()) == ["Done"] * 4 + ["Skipped"] * 2


def test_stored_results_are_not_rendered_onto_a_full_disk(place: Place) -> None:
    place.write_many(2)
    place.run()
    with Ledger.open(place.out) as ledger, pytest.raises(SetupError, match="disk of"):
        list(place.start(ledger, formats=("srt",), min_free=10**18))
    assert sorted(place.texts()) == ["f00.txt", "f01.txt"]


def test_nothing_to_do_needs_no_room(place: Place) -> None:
    place.write_many(2)
    place.run()
    assert set(kinds(place.run(min_free=10**18)).values()) == {"Skipped"}


# ---- the time limit, and a busy machine


@pytest.fixture
def pace(monkeypatch: pytest.MonkeyPatch) -> list[Pace]:
    """The paces of the runs to come: a test may set their `stop_at` while they run."""
    made: list[Pace] = []

    def make(stop_at: float | None, max_load: float | None) -> Pace:
        made.append(Pace(stop_at, max_load, load=lambda: 99.0))
        return made[-1]

    monkeypatch.setattr(runner, "Pace", make)
    return made


def _until_threads_end() -> None:
    end = time.monotonic() + 5
    while threading.active_count() > 1 and time.monotonic() < end:
        time.sleep(0.01)


def stop_in(pace: list[Pace], seconds: float) -> None:
    pace[-1].stop_at = pacing.clock() + seconds


@pytest.mark.parametrize(("kind", "workers"), [("thread", 0), ("thread", 2), ("child", 2)])
def test_past_the_time_limit_nothing_is_begun_and_the_next_run_goes_on(
    place: Place, kind: Kind, workers: int, pace: list[Pace]
) -> None:
    place.kind = kind
    place.write_many(12)
    place.fake["seconds_per_batch"] = 0.1
    done: list[Result] = []
    with Ledger.open(place.out) as ledger:
        for result in place.start(ledger, batch_size=1, prefetch_items=2, workers=workers):
            done.append(result)
            if len(done) == 2:
                stop_in(pace, 0.0)
    assert all(isinstance(result, Done) for result in done)
    assert 2 <= len(done) <= 5, "what was begun is finished, and no more"
    assert place.diary.left_items == 12 - len(done)
    assert place.rows() == {result.item.id: "done" for result in done}
    place.fake.clear()
    again = place.run()
    assert sorted(kinds(again).values()) == ["Done"] * (12 - len(done)) + ["Skipped"] * len(done)
    assert place.diary.left_items is None


@both
def test_what_takes_longer_than_the_grace_is_given_up(
    place: Place, kind: Kind, pace: list[Pace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child is ended, a thread left alone with what it is in the middle of."""
    monkeypatch.setattr(pacing, "GRACE", 0.5)
    place.kind = kind
    place.write_many(3)
    place.fake["seconds_per_batch"] = 60.0 if kind == "child" else 1.5
    place.diary.when_planned = lambda: stop_in(pace, 0.3)
    with Ledger.open(place.out) as ledger:
        results = place.start(ledger, batch_size=1)
        began = time.monotonic()
        assert list(results) == []
    assert time.monotonic() - began < 20
    assert place.diary.left_items == 3
    assert (place.rows(), place.texts()) == ({}, {})
    _until_threads_end()


def test_while_a_long_recording_is_decoded_the_time_is_kept(
    place: Place, pace: list[Pace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not handed to the engine, so it was not begun."""
    go_on = hold_decoding(monkeypatch)
    place.kind = "child"
    place.write_many(2)
    place.diary.when_planned = lambda: stop_in(pace, 0.3)
    with Ledger.open(place.out) as ledger:
        assert list(place.start(ledger, stop_at=pacing.clock() + 3600)) == []
    assert not go_on.is_set()
    assert place.diary.left_items == 2
    go_on.set()
    _until_threads_end()


def test_a_limit_that_is_over_before_anything_began(place: Place) -> None:
    place.write_many(3)
    with Ledger.open(place.out) as ledger:
        assert list(place.start(ledger, stop_at=pacing.clock() - 1)) == []
    assert place.diary.left_items == 3
    assert place.diary.told == [], "no engine was started"


def test_a_limit_that_is_over_while_files_are_probed(
    place: Place, pace: list[Pace], monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = reading.probe

    def slow(item: Item, rules: object = None) -> Any:
        stop_in(pace, 0.0)
        return probe(item)

    monkeypatch.setattr(reading, "probe", slow)
    place.write_many(4)
    with Ledger.open(place.out) as ledger:
        assert list(place.start(ledger)) == []
    assert place.diary.left_items == 4
    assert "loaded" not in place.diary.told


def test_what_had_not_the_time_comes_last_in_the_next_run(
    place: Place, pace: list[Pace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longest first would have it keep the others waiting night after night."""
    monkeypatch.setattr(pacing, "GRACE", 0.3)
    place.kind = "child"
    place.write("long", 3 * RATE)
    place.write_many(3)
    place.fake["seconds_per_batch"] = 1.5
    place.diary.when_planned = lambda: stop_in(pace, 0.5)
    with Ledger.open(place.out) as ledger:
        assert list(place.start(ledger, batch_size=1, prefetch_items=1)) == []
        assert {name for _, name in ledger.unfinished()} == {"long"}
    place.fake["seconds_per_batch"] = 0.0
    results = place.run(batch_size=1)
    assert list(results) == ["f00", "f01", "f02", "long"]
    with Ledger.open(place.out) as ledger:
        assert ledger.unfinished() == set()


def test_a_failure_counts_as_failed_and_not_as_left(place: Place, pace: list[Pace]) -> None:
    place.write_many(3)
    place.write("f00").write_bytes(b"no sound at all")
    with Ledger.open(place.out) as ledger:
        results = []
        for result in place.start(ledger, batch_size=1):
            results.append(result)
            stop_in(pace, 0.0)
    assert [type(result) for result in results] == [Failed]
    assert place.diary.left_items == 2


@both
def test_on_a_busy_machine_recordings_go_one_by_one(place: Place, kind: Kind, pace: list[Pace]) -> None:
    place.kind = kind
    place.write_many(5)
    assert set(kinds(place.run(max_load=4.0)).values()) == {"Done"}
    assert place.diary.rows[1:] == [1] * (len(place.diary.rows) - 1)
    assert place.diary.of("load") == [{"busy": True, "load": 99.0, "max_load": 4.0}]


def test_a_busy_machine_gives_way_at_once_to_ctrl_c(place: Place, pace: list[Pace]) -> None:
    """Whoever waits for a turn is let go when the run is closed."""
    place.kind = "child"
    place.write_many(4)
    place.fake["seconds_per_batch"] = 0.2
    with Ledger.open(place.out) as ledger:
        results = place.start(ledger, max_load=1.0)
        next(results)
        began = time.monotonic()
        results.close()  # type: ignore[attr-defined]
        assert time.monotonic() - began < 10
