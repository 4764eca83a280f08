"""Calls with a side on each channel, on real weights: whose words they are, and when each side begins."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
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
CALLS = ("fw-stereo", "call_s1_ulaw")
# Seconds, median. 0.12 are measured; 2.24 where windows begin in silence.
TURNS = 0.5
Row = dict[str, Any]


def rows(*names: str) -> list[Row]:
    lines = map(json.loads, (CORPUS / "manifest.jsonl").read_text("utf-8").splitlines())
    return [row for row in lines if row.get("id") in names]


def reference(name: str) -> list[Spoken]:
    """What was said: turn by turn where that is known, else as one stretch for each channel."""
    (row,) = rows(name)
    if "segments" in row:
        turns = json.loads((CORPUS / row["segments"]).read_text("utf-8"))
        return [Spoken(one["channel"], one["start"], one["end"], one["text"]) for one in turns]
    return [Spoken(int(channel), 0.0, row["duration_s"], text) for channel, text in row["channel_texts"].items()]


Told = Callable[[str], list[Spoken]]


def transcribe(names: Sequence[str], root: Path) -> Told:
    """What one run into `root` hears in each call, by the row's id."""
    calls = {row["id"]: CORPUS / row["path"] for row in rows(*names)}
    asked = ("--channels", "split", "--speakers", "agent,customer", "--language", "en", "--format", "json")
    settings = {"XDG_CONFIG_HOME": str(root / "config")}
    ran = finish(program("transcribe", *calls.values(), "-o", root, "--offline", *asked, **settings), timeout=1000)
    assert ran.code == 0, ran.err
    # Two files of one name keep their suffixes in the names of their outputs.
    return lambda name: heard(next(root.glob(f"{calls[name].stem}.json"), root / f"{calls[name].name}.json"))


@pytest.fixture(scope="module")
def told(whisper_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Told:
    return transcribe(CALLS, tmp_path_factory.mktemp("calls"))


def heard(record: Path) -> list[Spoken]:
    segments = json.loads(record.read_text("utf-8"))["segments"]
    assert [one["speaker"] for one in segments] == [("agent", "customer")[one["channel"]] for one in segments]
    return [Spoken(one["channel"], one["start"], one["end"], one["text"]) for one in segments]


@pytest.mark.parametrize("name", CALLS)
def test_words_stand_under_the_side_that_said_them(name: str, told: Told) -> None:
    share = label_share(reference(name), told(name))
    # Of the second call's 96 words five are heard in noise, where nobody speaks; with the encoder's full 30 s as well.
    assert share >= 0.94, f"{share:.1%}"


def test_turns_begin_when_they_do(told: Told) -> None:
    late = turn_starts(reference("call_s1_ulaw"), told("call_s1_ulaw"))
    assert late <= TURNS, f"{late:.2f} s (median)"
