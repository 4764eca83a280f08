"""Events and outcomes as sentences."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from mlxbatch.cli.wording import event_line, result_level, result_line
from mlxbatch.leak_words import leak_line
from mlxbatch.types import Done, Failed, Item, Skipped

ITEM = Item("1", Path(os.fsdecode(b"\xff\n.wav")), Path("x"))
GB = 10**9


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"step": "shrink", "live": 8, "rows": 4}, "memory 91 % of 4.0 GB: live rows halved, 8 -> 4"),
        ({"step": "shrink", "live": 3, "rows": 4}, "memory 91 % of 4.0 GB: live rows halved, at most 4"),
        ({"step": "hold"}, "memory 91 % of 4.0 GB: new work waits"),
        ({"step": "open", "rows": 8}, "memory 91 % of 4.0 GB: back to normal, at most 8 rows"),
        ({"step": "slow", "live": 8, "rows": 7}, "memory 91 % of 4.0 GB: windows take too long, fewer rows, 8 -> 7"),
        ({"step": "fallback"}, "memory 91 % of 4.0 GB: the smaller model takes over"),
        ({"step": "reclaim"}, "memory 91 % of 4.0 GB: the cache is cleared, and nothing new is taken on"),
        ({"step": "refuse"}, "memory 91 % of 4.0 GB: the run ends, as --on-pressure refuse asks for"),
        ({"step": "later"}, "memory 91 % of 4.0 GB: the governor goes to 'later'"),
    ],
)
def test_what_the_governor_does(facts: dict[str, Any], sentence: str) -> None:
    assert event_line("governor", {"share": 0.91, "limit": 4 * GB, **facts}) == ("warning", sentence)


@pytest.mark.parametrize(
    ("kind", "facts", "level", "sentence"),
    [
        ("governor", {"step": "hold"}, "warning", "new work waits"),
        ("governor", {"step": "shrink", "share": 0.9}, "warning", "memory 90 %: live rows halved"),
        ("child", {"what": "died", "cause": "killed by SIGSEGV"}, "warning", "the engine's process died"),
        (
            "child",
            {"what": "died", "cause": "killed by SIGSEGV"},
            "warning",
            " (killed by SIGSEGV); another is started",
        ),
        ("child", {"what": "stalled"}, "warning", "the engine's process made no progress; another is started"),
        ("child", {"what": "renewed", "cause": "a leak"}, "warning", "the engine's process is renewed (a leak)"),
        ("child", {"what": "started"}, "debug", "the engine's process: started"),
        (
            "switch",
            {"models": ["a", "b"], "bytes": 290_000_000, "loads": 3, "evictions": 1},
            "debug",
            "models on the device: a, b (290 MB); 3 loaded, 1 left so far",
        ),
        ("leak", {}, "warning", "memory keeps growing"),
        ("load", {"busy": True}, "warning", "the machine is busy, new work waits"),
        ("load", {"busy": False}, "info", "the machine is less busy, new work goes on"),
        ("sample", {}, "debug", "sample: "),
        ("group", {"group": 3, "items": 1, "took": 2.5}, "debug", "group 3 is done: 1 file in 2.5 s"),
    ],
)
def test_what_is_missing_is_left_out(kind: str, facts: dict[str, Any], level: str, sentence: str) -> None:
    found = event_line(kind, facts)
    assert found is not None
    assert found[0] == level
    assert sentence in found[1]


def test_the_load_with_its_figures() -> None:
    facts = {"load": 9.1, "max_load": 8.0}
    assert event_line("load", {"busy": True, **facts}) == (
        "warning",
        "the machine is busy, new work waits (load average 9.10 is over 8)",
    )
    assert event_line("load", {"busy": False, **facts, "load": 7.5}) == (
        "info",
        "the machine is less busy, new work goes on (load average 7.50 is no longer over 8)",
    )


def test_a_leak_is_told_as_one() -> None:
    facts = {"what": "rss", "growth": 41_200_000, "per_group": 612_400, "groups": 67, "bound": 30_000_000}
    assert event_line("leak", facts) == ("warning", leak_line(facts))


def test_a_sample_with_its_figures() -> None:
    facts = {"active": GB, "cache": 0, "peak": 2 * GB, "rss": 3 * GB, "available": 9 * GB, "cpu": 0.934, "gpu": None}
    facts |= {"load": 1.25, "live": 5, "rows": 8, "share": 0.4}
    assert event_line("sample", facts) == (
        "debug",
        "sample: active 1.0 GB, rss 3.0 GB, available 9.0 GB, share 40 %, cpu 93 %, load 1.2, rows 5 of 8",
    )


def test_spans_and_unknown_events_are_not_told() -> None:
    assert event_line("span", {"stage": "encode"}) is None
    assert event_line("news", {}) is None


def test_outcomes_on_one_line() -> None:
    assert result_line(Done(ITEM, (), 61.0, (), ("cut short",))) == "done: \\xff\\n.wav (1:01); cut short"
    assert result_line(Failed(ITEM, "infer", "two\nlines")) == "failed: \\xff\\n.wav: infer: two\\nlines"
    assert result_line(Skipped(ITEM, "done on 2026-11-30")).endswith(": done on 2026-11-30")
    assert "passed over from now on" in result_line(Failed(ITEM, "infer", "killed", quarantined=True))


def test_the_level_of_an_outcome() -> None:
    done, warned = Done(ITEM, (), 1.0), Done(ITEM, (), 1.0, (), ("cut short",))
    assert [result_level(done, verbose=verbose) for verbose in (False, True)] == ["debug", "info"]
    assert [result_level(Skipped(ITEM, "x"), verbose=verbose) for verbose in (False, True)] == ["debug", "info"]
    assert result_level(warned, verbose=False) == "warning"
    assert result_level(Failed(ITEM, "infer", "x"), verbose=False) == "error"
