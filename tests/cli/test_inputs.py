"""Which recordings are worked on: patterns, lists, filters and a manifest, over the fake engine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mlxbatch.cli import session
from mlxbatch.types import Item, Wishes

from .conftest import ROOT, Cli, Ran, finish, noise, program, write
from .running import OUT, outputs, run_log

Fake = dict[str, Any]


@pytest.fixture
def transcribe(cli: Cli, fake: Fake, recordings: Path) -> Cli:
    """`transcribe ... -o out` in this process."""
    return lambda *arguments: cli("transcribe", *arguments, "-o", OUT, "--workers", "0")


def done(ran: Ran) -> list[str]:
    assert ran.code == 0, ran.err
    return sorted(record["source"] for record in ran.records if record.get("status") == "done")


def test_a_quoted_pattern_is_expanded_and_keeps_its_tree(transcribe: Cli) -> None:
    assert done(transcribe("in/**/*.wav", "--json")) == ["in/a.wav", "in/b.wav", "in/sub/c.wav"]
    assert sorted(outputs()) == ["a.txt", "b.txt", "sub/c.txt"]


def test_a_pattern_without_a_match_is_a_usage_error(transcribe: Cli) -> None:
    ran = transcribe("in/*.mp3")
    assert (ran.code, ran.error) == (2, "mlxbatch: error: nothing matches in/*.mp3")
    assert not OUT.exists()


def test_include_and_exclude(transcribe: Cli) -> None:
    ran = transcribe("in", "--include", "*.wav", "--exclude", "sub/", "--exclude", "b.*", "--json")
    assert done(ran) == ["in/a.wav"]
    counts = {"waiting": 0, "older": 0, "excluded": 1, "excluded_folders": 1, "ignored": 0}
    assert ran.summary["not_taken"] == counts
    assert run_log()[-1]["not_taken"] == counts


def test_what_is_not_taken_is_said_once_at_the_end(transcribe: Cli) -> None:
    (Path("in") / "notes.txt").touch()
    ran = transcribe("in", "--exclude", "b.wav", "--log-file", "run.log")
    assert re.search(r"^  not taken +1 file excluded, 1 other file passed over$", ran.err, re.MULTILINE)
    assert Path("run.log").read_text().count("1 file excluded, 1 other file passed over in ") == 1
    ran = transcribe("in", "--exclude", "*")
    counts = "2 files excluded, 1 folder excluded, 1 other file passed over"
    assert f"nothing to transcribe: no audio files in in ({counts})" in ran.err


def test_a_file_that_is_being_written_waits_for_the_next_run(transcribe: Cli) -> None:
    now = time.time()
    for name, age in (("a", 3600), ("b", 1), ("sub/c", 3600)):
        os.utime(f"in/{name}.wav", (now - age, now - age))
    ran = transcribe("in", "--min-age", "1m", "--json")
    assert done(ran) == ["in/a.wav", "in/sub/c.wav"]
    assert (ran.summary["failed"], ran.summary["not_taken"]["waiting"]) == (0, 1)
    os.utime("in/b.wav", (now - 61, now - 61))
    assert done(transcribe("in", "--min-age", "1m", "--json")) == ["in/b.wav"]


def test_min_age_from_the_environment(transcribe: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLXBATCH_MIN_AGE", "1h")
    ran = transcribe("in")
    assert ran.code == 0
    assert "nothing to transcribe: no audio files in in (3 files waiting)" in ran.err


def test_newer_than_a_time_and_a_file(transcribe: Cli) -> None:
    now = time.time()
    for number, name in enumerate(("a", "b", "sub/c")):
        os.utime(f"in/{name}.wav", (now - number * 3600, now - number * 3600))
    Path("stamp").touch()
    os.utime("stamp", (now - 1800, now - 1800))
    assert done(transcribe("in", "--newer-than", "stamp", "--json")) == ["in/a.wav"]
    ran = transcribe("in", "--newer-than", "90m", "--json")
    assert done(ran) == ["in/b.wav"]
    assert (ran.summary["skipped"], ran.summary["not_taken"]["older"]) == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("in", "--newer-than", "soon"), "--newer-than: 'soon' is no moment, and no file that can be looked at: write"),
        (("in", "--min-age", "soon"), "--min-age: not a duration: 'soon' (write it as 90s"),
        (("in", "--include", "[z-a]"), "not a pattern: '[z-a]' (bad character range z-a"),
        (("in", "--exclude", ""), "not a pattern: '' (write it as"),
        (("in", "-0"), "-0 says what --files-from is like, and there is none"),
        (("--manifest", "no.csv"), "the manifest no.csv cannot be read: No such file or directory"),
        (("--manifest", "-", "--files-from", "-"), "--files-from and --manifest cannot both be standard input"),
        ((), "no inputs: name files or directories, or give a list with --files-from or --manifest"),
    ],
)
def test_what_cannot_be_meant(transcribe: Cli, arguments: tuple[str, ...], expected: str) -> None:
    ran = transcribe(*arguments)
    assert ran.code == 2
    assert ran.error.startswith(f"mlxbatch: error: {expected}")
    assert not OUT.exists()


@pytest.mark.skipif(sys.platform == "darwin", reason="this file system takes UTF-8 names only")
def test_any_name_comes_through_find_and_a_list(place: Path) -> None:
    """Spaces, quotes, line ends, and bytes that are no UTF-8, through a shell, a pipe, and into outputs."""
    names = [b"with space.wav", b'it\'s "q".wav', b"new\nline.wav", b"caf\xe9.wav", b" .wav", b"*[x].wav"]
    (place / "in").mkdir()
    for name in names:
        write(place / "plain.wav", noise(1)).rename(place / "in" / os.fsdecode(name))
    command = f"find in -type f -print0 | {sys.executable} -m tests.cli.fake_run transcribe --files-from - -0 -o out -q"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "FAKE_ENGINE": "{}"}
    ran = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert sorted(os.fsencode(path.name) for path in OUT.glob("*.txt")) == sorted(name[:-4] + b".txt" for name in names)


# --- a manifest ------------------------------------------------------------------------------------------------------


@pytest.fixture
def items(monkeypatch: pytest.MonkeyPatch) -> list[Item]:
    """What the runner is given."""
    seen: list[Item] = []
    real = session.runner.transcribe

    def transcribe(items: Any, *rest: Any) -> Any:
        seen.extend(items)
        return real(items, *rest)

    monkeypatch.setattr(session.runner, "transcribe", transcribe)
    return seen


def test_a_manifest_s_wishes_go_with_its_recordings(transcribe: Cli, items: list[Item]) -> None:
    Path("in/calls.csv").write_text("path;language;channels;speakers\nsub/c.wav;German;split;agent,customer\nb.wav\n")
    ran = transcribe("--manifest", "in/calls.csv", "--json")
    assert done(ran) == ["in/b.wav", "in/sub/c.wav"]
    assert sorted(outputs()) == ["b.txt", "sub/c.txt"]
    assert [item.wishes for item in items] == [Wishes(), Wishes("de", "split", ("agent", "customer"))]


def test_inputs_beside_a_manifest_are_taken_too(transcribe: Cli, items: list[Item]) -> None:
    Path("calls.csv").write_text("path,prompt\nin/sub/c.wav,Hello\n")
    assert done(transcribe("in", "--manifest", "calls.csv", "--json")) == ["in/a.wav", "in/b.wav", "in/sub/c.wav"]
    assert sorted(outputs()) == ["a.txt", "b.txt", "sub/c.txt"]
    assert [item.wishes.prompt for item in items] == [None, None, "Hello"]


def test_a_row_s_recording_that_is_not_there_fails_alone(transcribe: Cli) -> None:
    Path("in/calls.csv").write_text("path\na.wav\ngone.wav\n")
    ran = transcribe("--manifest", "in/calls.csv")
    assert ran.code == 1
    assert "in/gone.wav: discover: no such file, or it cannot be looked at (line 3 of the manifest)" in ran.err
    assert sorted(outputs()) == ["a.txt"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            b"file,language\na.wav,en\n",
            "calls.csv, line 1: unknown column 'file' (there are: path, language,",
        ),
        (b"language\nen\n", "calls.csv, line 1: no column path, which names the recordings"),
        (b"path,language\na.wav,xx\n", "calls.csv, line 2: column language: unknown language 'xx'"),
        (b"path\ncaf\xe9.wav\n", "calls.csv, line 2: not UTF-8: save it as CSV in UTF-8"),
        (b"", "calls.csv, line 1: no column path"),
    ],
)
def test_a_manifest_that_cannot_be_understood(transcribe: Cli, content: bytes, expected: str) -> None:
    Path("calls.csv").write_bytes(content)
    ran = transcribe("in", "--manifest", "calls.csv")
    assert ran.code == 2
    assert ran.error.startswith(f"mlxbatch: error: {expected}")
    assert not OUT.exists()


def test_a_manifest_without_rows_is_nothing_to_do(transcribe: Cli) -> None:
    Path("calls.csv").write_text("path\n")
    ran = transcribe("--manifest", "calls.csv")
    assert (ran.code, "nothing to transcribe: no audio files in calls.csv" in ran.err) == (0, True)


@pytest.mark.parametrize("option", ["--files-from", "--manifest"])
def test_an_empty_standard_input_is_called_so(recordings: Path, option: str) -> None:
    ran = finish(program("transcribe", option, "-", "-o", OUT, fake={}))
    if option == "--files-from":
        assert (ran.code, "nothing to transcribe: no audio files in standard input" in ran.err) == (0, True)
    else:
        assert (ran.code, "standard input" in ran.error) == (2, True)  # a table has a first line
