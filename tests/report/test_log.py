"""Reading a log: of this version, of older ones, of a run that was killed in the middle of a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlxbatch.errors import SetupError
from mlxbatch.report.log import Log, number, parse_log, read_log, text
from mlxbatch.runlog import RunLog
from mlxbatch.types import Readings, Span


def test_what_the_real_log_writes_is_read(tmp_path: Path) -> None:
    now = [0.0]
    with RunLog(tmp_path, "one", clock=lambda: now[0]) as written:
        written.start({"id": "one", "model": "whisper-base"})
        now[0] = 2.0
        written.plan([])
        spans = (Span("encode", 1.0, 2.0, 4), Span("features", 0.0, 9.0, 1))
        written.spans(Readings(spans=spans))
        for kind in ("sample", "governor", "load", "child", "leak", "group"):
            written.event(kind, {"what": kind})
        now[0] = 5.5
        written.end({"outcome": "finished"})
    log = read_log(written.path)
    assert log is not None
    assert (log.start["model"], log.end["outcome"]) == ("whisper-base", "finished")
    assert [plan["t"] for plan in log.plans] == [2.0]
    assert log.spans == [Span("encode", 1.0, 2.0, 4)]
    assert [log.samples[0]["what"], log.governor[0]["what"], log.children[0]["what"]] == ["sample", "governor", "child"]
    assert log.loads[0]["what"] == "load"
    assert (log.leaks[0]["what"], log.seconds, log.unreadable) == ("leak", 5.5, 0)


def test_a_line_that_a_kill_tore_is_passed_over() -> None:
    log = parse_log([b'{"event": "start", "t": 0.0, "model": "m"}\n', b'{"event": "item", "t": 3.5, "sta'])
    assert (log.start["model"], log.items, log.unreadable, log.seconds) == ("m", [], 1, 0.0)


@pytest.mark.parametrize(
    "line",
    [b"\xff\xfe\n", b"[1, 2]\n", b"null\n", b'{"t": 1}\n', b'{"event": 3, "t": 1}\n', b"[" * 100_000],
    ids=["bytes", "list", "null", "no event", "event is no text", "deep"],
)
def test_lines_that_are_no_events_are_counted(line: bytes) -> None:
    log = parse_log([line, b'{"event": "item", "t": 1, "status": "done"}\n', b"\n"])
    assert (log.unreadable, len(log.items)) == (1, 1)


def test_events_of_a_later_version_and_missing_keys_do_no_harm() -> None:
    lines = [b'{"event": "dream", "t": 7}\n', b'{"event": "span"}\n', b'{"event": "plan", "t": null}\n']
    log = parse_log(lines)
    assert (log.seconds, log.spans, len(log.plans), log.unreadable) == (7.0, [], 1, 0)


def test_a_log_that_is_gone_and_one_that_cannot_be_read(tmp_path: Path) -> None:
    assert read_log(tmp_path / "none.jsonl") is None
    with pytest.raises(SetupError, match=r"cannot read .*: Is a directory"):
        read_log(tmp_path)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(3, 3.0), (0.5, 0.5), *((wrong, None) for wrong in (True, "3", None, float("nan"), float("inf"), 10**400, [1]))],
)
def test_a_number_is_a_number(value: object, expected: float | None) -> None:
    assert number({"a": {"b": value}}, "a", "b") == expected


def test_what_is_printed_is_fit_to_be() -> None:
    assert number({"a": 1}, "a", "b") is None
    assert text({"why": "a\x1b[31m\n"}, "why") == "a\\x1b[31m\\n"
    assert text({"why": 3}, "why") == text({}, "why") == ""
    assert Log().start == {}
