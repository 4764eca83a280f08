"""The table at the end of a run."""

from __future__ import annotations

import io
from pathlib import Path

from mlxbatch.cli.summary import LISTED, end_line, failure_lines, notes, rows, show_summary
from mlxbatch.metrics import RunStats
from mlxbatch.types import Done, Failed, Item, Readings, Skipped, WindowStats


def item(name: str) -> Item:
    return Item(name, Path("in") / f"{name}.wav", Path(name))


def stats() -> RunStats:
    now = [0.0]
    found = RunStats(clock=lambda: now[0])
    windows = tuple(WindowStats(30.0 * n, 30.0, 10, latency) for n, latency in enumerate((1.0, 2.0, 3.0)))
    found.add(Done(item("a"), (), 120.0, windows))
    found.add(Done(item("b"), (), 60.0, (), ("cut short",)))
    found.add(Failed(item("c"), "decode", "no audio"))
    for name in "de":
        found.add(Skipped(item(name), "done on 2026-11-30"))
    found.read(Readings(peak=1_200_000_000, rss=1_900_000_000))
    now[0] = 20.0
    found.stop()
    return found


def test_the_table() -> None:
    assert rows(stats().summary()) == [
        ("done", "2 (1 from stored results, without inference)"),
        ("skipped", "2 (2 done on 2026-11-30)"),
        ("failed", "1"),
        ("time", "0:20 for 2.0 min of audio, RTFx 6.0"),
        ("a window took", "2.00 / 2.90 / 2.98 s (p50 / p95 / p99 of 3)"),
        ("peak memory", "1.2 GB on the device, 1.9 GB its process"),
    ]


def test_a_run_in_which_nothing_was_done_has_no_empty_figures() -> None:
    assert [label for label, _ in rows(RunStats().summary())] == ["done", "failed", "time"]


def test_the_run_in_one_line() -> None:
    assert end_line(stats().summary()) == "2 files done, 2 skipped, 1 failed, 1 warning in 0:20"


def test_files_that_were_not_taken_are_counted_in_the_table_and_the_line() -> None:
    summary = RunStats(not_taken={"waiting": 1, "excluded_folders": 2, "older": 0, "ignored": 3}).summary()
    expected = "1 file waiting, 2 folders excluded, 3 other files passed over"
    assert dict(rows(summary))["not taken"] == expected
    assert end_line(summary).startswith(f"0 files done, 0 skipped, 0 failed, {expected} in ")


def test_failures_are_listed_up_to_a_number() -> None:
    found = RunStats()
    for number in range(LISTED + 5):
        found.add(Failed(item(f"{number:02d}"), "decode", "no\naudio"))
    lines = notes("failed", failure_lines(found.summary()), Path("out/runs/1.jsonl"))
    assert lines[:2] == ["failed:", "  in/00.wav: decode: no\\naudio"]
    assert len(lines) == LISTED + 2
    assert lines[-1] == "  and 5 more, see out/runs/1.jsonl"
    assert notes("failed", [], None) == []


def test_as_text_and_in_a_terminal() -> None:
    for terminal in (False, True):
        stream = io.StringIO()
        show_summary(stats().summary(), ["in/b.wav: cut short"], Path("log"), stream, terminal=terminal)
        text = stream.getvalue()
        assert "\x1b" not in text, "a StringIO is no terminal, so that rich writes plain text too"
        assert "RTFx 6.0" in text
        assert text.endswith("warnings:\n  in/b.wav: cut short\nfailed:\n  in/c.wav: decode: no audio\n")
    assert "mlxbatch: 2 files done" not in text
