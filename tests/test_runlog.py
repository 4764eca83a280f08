"""The log of a run: what it holds, in which order, and that a full disk is an error of the environment."""

from __future__ import annotations

import errno
import json
import os
import time
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlxbatch import __version__, runlog
from mlxbatch.errors import SetupError
from mlxbatch.runlog import RunLog, new_run_id, prune, result_record, versions
from mlxbatch.types import Done, Failed, Item, Planned, Probed, Readings, Skipped, Span, WindowStats

ITEM = Item("1", Path(os.fsdecode(b"in/\xff.wav")), Path("x"))


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def test_a_run_from_start_to_end(tmp_path: Path) -> None:
    now = [100.0]
    with RunLog(tmp_path, "one", clock=lambda: now[0]) as log:
        log.start({"id": "one", "model": "whisper-base"})
        now[0] = 101.5
        log.plan([Planned(Probed(ITEM, seconds, 16_000, 1), 0) for seconds in (4.0, 2.0)])
        log.spans(Readings(spans=(Span("encode", 101.0, 102.25, 4), Span("decode", 102.25, 103.0, 8))))
        log.item(Done(ITEM, (Path("out/x.txt"),), 4.0, (WindowStats(0.0, 4.0, 9, 1.0),), ("truncated",)))
        now[0] = 104.0
        log.end({"outcome": "finished", "done": 1})
    start, plan, encode, decode, item, end = events(tmp_path / ".mlxbatch" / "runs" / "one.jsonl")
    assert {"event": "start", "t": 0.0, "id": "one", "model": "whisper-base"}.items() <= start.items()
    assert plan == {"event": "plan", "t": 1.5, "items": 2, "groups": 1, "seconds": 6.0, "padding_ratio": 0.25}
    assert encode == {"event": "span", "t": 1.5, "stage": "encode", "begin": 1.0, "end": 2.25, "rows": 4}
    assert (decode["begin"], decode["end"], decode["rows"]) == (2.25, 3.0, 8)
    assert item["event"] == "item"
    assert item["source"] == "in/\\xff.wav"
    assert end == {"event": "end", "t": 4.0, "outcome": "finished", "done": 1}


def test_outcomes_as_records() -> None:
    done = result_record(Done(ITEM, (Path("a.txt"),), 2.0, (), ("short",)))
    assert done == {
        "source": "in/\\xff.wav",
        "status": "done",
        "outputs": ["a.txt"],
        "seconds": 2.0,
        "windows": 0,
        "warnings": ["short"],
        "took": 0.0,
        "model": "",
    }
    timed = result_record(Done(ITEM, (), 2.0, took=1.5, model="whisper-base"))
    assert (timed["took"], timed["model"]) == (1.5, "whisper-base")
    assert result_record(Failed(ITEM, "infer", "killed", quarantined=True))["quarantined"] is True
    failed = result_record(Failed(ITEM, "decode", "no audio"))
    assert failed == {
        "source": "in/\\xff.wav",
        "status": "failed",
        "stage": "decode",
        "error": "no audio",
        "quarantined": False,
    }
    skipped = {"source": "in/\\xff.wav", "status": "skipped", "why": "done on 2026-11-30", "quarantined": False}
    assert result_record(Skipped(ITEM, "done on 2026-11-30")) == skipped
    assert result_record(Skipped(ITEM, "quarantined: killed", quarantined=True))["quarantined"] is True


def test_every_line_is_there_before_the_log_is_closed(tmp_path: Path) -> None:
    with RunLog(tmp_path, "one") as log:
        log.start({})
        assert [event["event"] for event in events(log.path)] == ["start"]


def test_what_json_cannot_hold_is_an_error_and_no_text_that_looks_like_it(tmp_path: Path) -> None:
    with RunLog(tmp_path, "one") as log, pytest.raises(TypeError):
        log.event("sample", {"active": Path("x")})


def test_the_versions_name_what_a_result_depends_on() -> None:
    found = versions()
    assert found["mlxbatch"] == __version__
    assert found["numpy"] == np.__version__
    assert set(found) == {"mlxbatch", "python", "mlx", "numpy"}


def test_a_package_that_is_not_there_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runlog, "_PACKAGES", ("no-such-package",))
    assert versions()["no-such-package"] is None


OLD = [f"2026120{day}T221500Z-{day:06x}.jsonl" for day in range(1, 7)]


@pytest.fixture
def old_logs(tmp_path: Path) -> Path:
    """Six logs, of which the newest is written now, and what is no log."""
    for name in OLD:
        (tmp_path / name).write_text("{}\n")
    for name in ("notes.jsonl", "20261201T221500Z-000001.jsonl.gz", "20261201T221500Z-00000Z.jsonl"):
        (tmp_path / name).touch()
    (tmp_path / "20261101T221500Z-abcdef.jsonl").mkdir()
    (tmp_path / "20261102T221500Z-abcdef.jsonl").symlink_to(tmp_path / "notes.jsonl")
    return tmp_path


@pytest.mark.parametrize("keep", [1, 2, 5, 6, 100])
def test_the_newest_logs_are_kept(old_logs: Path, keep: int) -> None:
    others = {path.name for path in old_logs.iterdir()} - set(OLD)
    assert prune(keep, old_logs / OLD[-1]) == []
    left = {path.name for path in old_logs.iterdir()}
    assert left - others == set(OLD[-keep:])
    assert others <= left


def test_the_log_that_is_written_stays_though_the_clock_went_back(old_logs: Path) -> None:
    assert prune(2, old_logs / OLD[0]) == []
    assert sorted({path.name for path in old_logs.iterdir()} & set(OLD)) == [OLD[0], OLD[-1]]


def test_a_log_that_cannot_be_removed_is_named(old_logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    assert prune(5, old_logs / OLD[-1]) == [f"{old_logs / OLD[0]}: Permission denied"]
    assert "No such file" in prune(5, old_logs / "gone" / OLD[-1])[0]


def test_run_ids_are_new_and_sort_by_time() -> None:
    ids = []
    for _ in range(5):
        ids.append(new_run_id())
        time.sleep(0.002)
    assert len(set(ids)) == 5
    assert ids == sorted(ids), "within one second, too"


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / ".mlxbatch").mkdir()
    (tmp_path / ".mlxbatch" / "runs").write_text("a file in the way")
    with pytest.raises(SetupError, match="runs"):
        RunLog(tmp_path, "one")


class _SmallDisk(FileIO):
    """A file on a disk with room for so many more bytes."""

    room = 100

    def write(self, line: Any) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = super().write(line[: self.room])
        self.room -= taken
        return taken


def test_a_disk_that_fills_in_the_middle_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The half line is taken back: it would spoil the next one, which there may be room for."""
    monkeypatch.setattr(runlog, "FileIO", _SmallDisk)
    with RunLog(tmp_path, "one", clock=lambda: 0.0) as log:
        log.event("child", {"what": "died"})
        with pytest.raises(SetupError, match=r"one\.jsonl: the disk is full; free some space"):
            log.event("leak", {"what": "active", "growth": 1 << 40, "bound": 1 << 30, "groups": 12})
        monkeypatch.setattr(log._lines._file, "room", 1000)
        log.end({"outcome": "SetupError"})
    assert [event["event"] for event in events(log.path)] == ["child", "end"]
