"""Calls with a side on each channel, on real weights: whose words they are, and when each side begins."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.call_quality import Spoken, label_share, turn_starts

from .conftest import ROOT, finish, program

CORPUS = ROOT.parent / "shared" / "data"
pytestmark = [
    pytest.mark.real,
    pytest.mark.corpus,
    pytest.mark.skipif(not (CORPUS / "manifest.jsonl").exists(), reason="the shared recordings are missing"),
]
Row = dict[str, Any]


def rows(*names: str) -> list[Row]:
    lines = map(json.loads, (CORPUS / "manifest.jsonl").read_text("utf-8").splitlines())
    return [row for row in lines if row.get("id") in names]


def reference(row: Row) -> list[Spoken]:
    """What was said: turn by turn where that is known, else as one stretch for each channel."""
    if "segments" in row:
        turns = json.loads((CORPUS / row["segments"]).read_text("utf-8"))
        return [Spoken(one["channel"], one["start"], one["end"], one["text"]) for one in turns]
    return [Spoken(int(channel), 0.0, row["duration_s"], text) for channel, text in row["channel_texts"].items()]


def heard(row: Row) -> list[Spoken]:
    segments = json.loads(Path("out", Path(row["path"]).stem + ".json").read_text("utf-8"))["segments"]
    assert [one["speaker"] for one in segments] == [("agent", "customer")[one["channel"]] for one in segments]
    return [Spoken(one["channel"], one["start"], one["end"], one["text"]) for one in segments]


def transcribe(found: list[Row]) -> None:
    calls = [CORPUS / row["path"] for row in found]
    split = ("--channels", "split", "--speakers", "agent,customer", "--language", "en")
    ran = finish(program("transcribe", *calls, "-o", "out", "--offline", "--format", "json", *split), timeout=500)
    assert ran.code == 0, ran.err


def test_calls_are_told_side_by_side(whisper_base: Path, record_property: Callable[[str, object], None]) -> None:
    found = rows("fw-stereo", "call_s3_alaw")
    transcribe(found)
    for row in found:
        share = label_share(reference(row), heard(row))
        record_property(f"label_share {row['id']}", share)
        assert share >= 0.95
    starts = turn_starts(reference(found[1]), heard(found[1]))
    record_property("turn_starts", starts)
    assert starts <= 0.5, f"turns begin {starts:.2f} s (median) from where they do"
