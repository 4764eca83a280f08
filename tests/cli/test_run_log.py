"""The run's log as the program writes it, and the document that tells its keys."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest

from mlxbatch import governor, leaks
from mlxbatch.cli import request
from mlxbatch.discover import Found, discover
from mlxbatch.errors import ItemError
from mlxbatch.history import History

from .conftest import ROOT, Cli
from .running import run_log

Fake = dict[str, Any]
RUN = ("transcribe", "in", "-o", "out", "--workers", "0")


def documented() -> dict[str, set[str]]:
    """Each event -> the keys that docs/logs-and-metrics.md has for it."""
    found: dict[str, set[str]] = {}
    text = (ROOT / "docs" / "logs-and-metrics.md").read_text("utf-8")
    for event, keys in re.findall(r"^\| `(\w+)` \| [^|]* \| ([^|]*) \|$", text, re.MULTILINE):
        found.setdefault(event, set()).update(re.findall(r"`(\w+)`", keys))
    return found


def test_the_document_has_the_keys_of_every_event(cli: Cli, fake: Fake, recordings: Path) -> None:
    (recordings / "text.wav").write_text("no recording")
    assert cli(*RUN).code == 1
    first = run_log()
    assert cli(*RUN).code == 1
    told = documented()
    seen = {event["event"] for event in first}
    assert seen == {"start", "plan", "span", "sample", "group", "item", "end"}
    for event in first + run_log():
        kind, keys = event["event"], set(event) - {"event", "t"}
        if kind != "end":
            assert keys <= told[kind], kind
    assert told["start"] == set(first[0]) - {"event", "t"}
    for kind in ("plan", "span", "sample", "group"):
        assert told[kind] == set().union(*(event for event in first if event["event"] == kind)) - {"event", "t"}, kind


def test_the_document_has_the_keys_of_what_a_quiet_run_does_not_write() -> None:
    told = documented()
    assert told["governor"] == {field.name for field in fields(governor.Change)}
    assert {field.name for field in fields(leaks.Leak)} <= told["leak"]
    assert told["child"] == {"what", "cause"}
    assert told["load"] == {"busy", "load", "max_load"}
    text = (ROOT / "docs" / "logs-and-metrics.md").read_text("utf-8")
    for kind in (governor.Step, governor.Why):
        assert all(re.search(rf"\b{word}\b", text) for word in get_args(kind))


def test_how_many_files_were_found_is_there_from_the_start(
    cli: Cli, fake: Fake, recordings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that could not be listed are among them, and in the log, too: what was left can be told of a killed run."""

    def with_a_problem(_: object) -> Found:
        found = discover([Path("in")], output=Path("out"))
        return Found(found.items, found.not_taken, (ItemError(Path("in/locked"), "discover", "Permission denied"),))

    monkeypatch.setattr(request, "find_inputs", with_a_problem)
    assert cli(*RUN).code == 1
    start, second, *_ = events = run_log()
    assert (start["event"], start["found"]) == ("start", 4)
    assert (second["event"], second["source"], second["status"]) == ("item", "in/locked", "failed")
    assert len([event for event in events if event["event"] == "item"]) == 4
    with History.open(Path("out")) as history:
        assert history.runs()[0].facts["found"] == 4
