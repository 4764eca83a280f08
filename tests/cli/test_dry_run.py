"""`--dry-run`: what would be done, in which groups, and what it would take."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..models.tiny import tiny_tokenizer, write_json, write_tiny_whisper
from .conftest import Cli, Ran, noise, write
from .running import OUT, run_log

IN = Path("in")
Run = Callable[..., Ran]
Fake = dict[str, Any]


@pytest.fixture
def run(cli: Cli, fake: Fake, recordings: Path) -> Run:
    """`transcribe in -o out` in this process, with further arguments."""
    return lambda *arguments: cli("transcribe", IN, "-o", OUT, "--workers", "0", *arguments)


def plan_of(ran: Ran) -> dict[str, Any]:
    assert ran.code == 0, ran.err
    assert ran.records[-1]["event"] == "plan"
    return ran.records[-1]


def events(ran: Ran, kind: str) -> list[dict[str, Any]]:
    return [record for record in ran.records if record["event"] == kind]


def test_it_says_what_would_be_done_and_touches_nothing(run: Run) -> None:
    (IN / "text.wav").write_text("no recording")
    ran = run("--dry-run", "--batch-size", "2")
    assert ran.code == 0
    assert re.findall(r"^(\w+) +(\S+)  \((\w+)\)$", ran.out, re.M) == [
        ("transcribe", f"in/{name}.wav", "new") for name in ("a", "b", "sub/c", "text")
    ]
    assert "would fail: in/text.wav: probe: " in ran.out
    assert ran.out.splitlines()[-1] == (
        "3 to transcribe (6 s of audio, 7 s padded), 0 to render, 0 to skip, 1 would fail"
    )
    assert not OUT.exists()


def test_groups_have_their_lengths_padding_and_memory(run: Run, fake: Fake) -> None:
    fake |= {"weights": 7_000_000, "bytes_per_second": 1_000_000}
    ran = run("--dry-run", "--batch-size", "2", "--memory-limit", "20MB")
    assert (
        "group 1: 2 files, 0:02 to 0:03, 6 s padded, 12 MB\ngroup 2: 1 file, 0:01 to 0:01, 1 s padded, 8 MB\n"
        in ran.out
    )
    assert "memory: 12 MB at most, in group 1 (7 MB of it weights), of a limit of 20 MB\n" in ran.out
    ran = run("--dry-run", "--batch-size", "2", "--memory-limit", "20MB", "--json")
    assert [record["group"] for record in events(ran, "would")] == [2, 1, 1]
    one, two = events(ran, "group")
    assert one == {
        "event": "group",
        "group": 1,
        "items": 2,
        "shortest": 2.0,
        "longest": 3.0,
        "seconds": 5.0,
        "padded_seconds": 6.0,
        "memory_bytes": 12_000_000,
    }
    assert (two["group"], two["memory_bytes"]) == (2, 8_000_000)
    plan = plan_of(ran)
    assert (plan["seconds"], plan["padded_seconds"], plan["padding_ratio"]) == (6.0, 7.0, pytest.approx(1 / 7))
    assert (plan["weights_bytes"], plan["memory_bytes"], plan["limit_bytes"]) == (7_000_000, 12_000_000, 20_000_000)


@pytest.mark.parametrize("limit", [100_000_000, 17_000_000, 14_000_000, 12_500_000])
def test_the_groups_are_those_of_the_run(run: Run, fake: Fake, limit: int) -> None:
    for number in range(6):
        write(IN / f"more/{number}.wav", noise(0.5 + number / 4, number))
    fake |= {"weights": 4_000_000, "working": 1_000_000, "bytes_per_second": 1_000_000, "memory_limit": limit}
    arguments = ("--batch-size", "4", "--memory-limit", f"{limit}B")
    planned = plan_of(run(*arguments, "--dry-run", "--json"))
    assert run(*arguments).code == 0
    (logged,) = [event for event in run_log() if event["event"] == "plan"]
    keys = ("items", "groups", "seconds", "padding_ratio")
    assert {key: planned[key] for key in keys} == {key: logged[key] for key in keys}


def test_time_is_unknown_before_a_first_run_and_then_that_of_earlier_ones(run: Run, fake: Fake) -> None:
    ran = run("--dry-run")
    assert "\ntime: unknown before a first run of this model with these settings, on this machine, into" in ran.out
    plan = plan_of(run("--dry-run", "--json"))
    assert (plan["predicted_seconds"], plan["rtfx"], plan["runs"]) == (None, None, 0)
    run()
    summary = run_log()[-1]
    plan = plan_of(run("--dry-run", "--force", "--json"))
    assert (plan["rtfx"], plan["runs"]) == (pytest.approx(summary["rtfx"]), 1)
    assert plan["predicted_seconds"] == pytest.approx(summary["wall_seconds"])
    assert re.search(
        r"^time: about \d+:\d\d \(RTFx [\d.]+ in 1 earlier run like this\)$", run("--dry-run", "--force").out, re.M
    )
    # Another batch size is another speed, and a run in which nothing was worked on tells none.
    assert plan_of(run("--dry-run", "--force", "--json", "--batch-size", "3"))["rtfx"] is None
    run()
    assert plan_of(run("--dry-run", "--force", "--json"))["runs"] == 1


def test_nothing_to_do_takes_nothing(run: Run) -> None:
    run()
    ran = run("--dry-run")
    assert "memory:" not in ran.out
    assert "time:" not in ran.out
    plan = plan_of(run("--dry-run", "--json"))
    assert (plan["items"], plan["padded_seconds"], plan["memory_bytes"], plan["skip"]) == (0, 0, None, 3)


def test_over_an_output_with_a_ledger(run: Run) -> None:
    run()
    write(IN / "d.wav", noise(4))
    before = {path: path.stat().st_mtime_ns for path in OUT.rglob("*.txt")}
    ran = run("--dry-run", "--json", "--format", "srt")
    assert [record["do"] for record in events(ran, "would")] == ["render", "render", "transcribe", "render"]
    plan = plan_of(ran)
    assert [plan[key] for key in ("transcribe", "render", "skip", "items", "groups", "padding_ratio")] == [
        1,
        3,
        0,
        1,
        1,
        0.0,
    ]
    assert run("--dry-run", "--json").records[0]["do"] == "skip"
    assert {path: path.stat().st_mtime_ns for path in OUT.rglob("*.txt")} == before
    assert len(list((OUT / ".mlxbatch" / "runs").iterdir())) == 1


def test_what_is_not_taken_and_what_would_fail_is_counted(run: Run) -> None:
    (IN / "text.wav").write_text("no recording")
    (IN / "notes.txt").touch()
    Path("calls.csv").write_text("path\nin/gone.wav\n")
    arguments = ("--dry-run", "--exclude", "sub/", "--manifest", "calls.csv")
    ran = run(*arguments)
    assert "\nnot taken: 1 folder excluded, 1 other file passed over\n" in ran.out
    assert (
        "would fail: in/gone.wav: discover: no such file, or it cannot be looked at (line 2 of the manifest)" in ran.out
    )
    assert ran.err == ""
    plan = plan_of(run(*arguments, "--json"))
    assert (plan["would_fail"], plan["transcribe"]) == (2, 2)
    assert ran.out.splitlines()[-1].endswith(", 2 would fail")
    assert plan["not_taken"] == {"waiting": 0, "older": 0, "excluded": 0, "excluded_folders": 1, "ignored": 1}


def test_without_the_model_nothing_is_fetched_and_nothing_guessed(
    cli: Cli, recordings: Path, monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    monkeypatch.setenv("MLXBATCH_CACHE", str(place / "cache"))
    ran = cli("transcribe", IN, "-o", OUT, "--dry-run")
    assert ran.code == 0
    for name in ("whisper-base", "silero-vad"):
        assert f"mlxbatch: {name} is not here yet: a run would fetch it first\n" in ran.err
    assert "memory: unknown before the model is there; groups by batch size alone" in ran.out
    assert "3 to transcribe" in ran.out
    assert not (place / "cache").exists()
    plan = plan_of(cli("transcribe", IN, "-o", OUT, "--dry-run", "--json"))
    assert (plan["weights_bytes"], plan["memory_bytes"], plan["predicted_seconds"]) == (None, None, None)


@pytest.mark.parametrize(
    ("model", "cause"),
    [
        ("whisper-bse", "unknown model 'whisper-bse'"),
        ("./nothing", "./nothing: no such model directory"),
        ("./empty", "config.json: missing"),
    ],
)
@pytest.mark.parametrize("asked", ["--model", "--fallback-model"])
def test_a_model_that_no_run_could_fetch_ends_it_as_the_run(
    cli: Cli, recordings: Path, place: Path, monkeypatch: pytest.MonkeyPatch, asked: str, model: str, cause: str
) -> None:
    monkeypatch.setenv("MLXBATCH_CACHE", str(place / "cache"))
    (place / "empty").mkdir()
    arguments = ["--model", write_tiny_whisper(place / "tiny"), asked, model, "--no-vad"]
    ran = cli("transcribe", IN, "-o", OUT, "--dry-run", *arguments)
    assert (ran.code, ran.out) == (3, "")
    assert cause in ran.error


def test_offline_what_is_not_here_ends_it_as_the_run(
    cli: Cli, recordings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLXBATCH_CACHE", str(recordings / "cache"))
    ran = cli("transcribe", IN, "-o", OUT, "--dry-run", "--offline")
    assert ran.code == 3
    assert "whisper-base is not on this machine, and this run is offline" in ran.error


@pytest.mark.parametrize(
    ("missing", "arguments", "ours"),
    [
        ("whisper-base", ("--fallback-model", "whisper-base", "--no-vad"), "new"),
        ("silero-vad", ("--vad",), "new"),
    ],
)
def test_what_is_here_tells_what_it_can_though_another_is_missing(
    cli: Cli,
    recordings: Path,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    missing: str,
    arguments: tuple[str, ...],
    ours: str,
) -> None:
    monkeypatch.setenv("MLXBATCH_CACHE", str(place / "cache"))
    tiny = write_tiny_whisper(place / "tiny")
    ran = cli("transcribe", IN, "-o", OUT, "--model", tiny, *arguments, "--dry-run")
    assert ran.code == 0
    assert ran.err.count("is not here yet: a run would fetch it first") == 1
    assert f"mlxbatch: {missing} is not here yet" in ran.err
    assert "of it weights)" in ran.out
    assert ran.out.count(f"({ours})") == 3


def test_a_damaged_model_of_packages_would_be_fetched_again(
    cli: Cli, recordings: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLXBATCH_CACHE", str(place / "cache"))
    (write_tiny_whisper(place / "cache" / "models" / "whisper-base") / "model.safetensors").write_bytes(b"")
    ran = cli("transcribe", IN, "-o", OUT, "--dry-run", "--no-vad")
    assert ran.code == 0
    assert "mlxbatch: whisper-base is not here yet: a run would fetch it first" in ran.err


def test_a_repaired_model_leaves_nothing_behind(
    cli: Cli, recordings: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLXBATCH_CACHE", str(place / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(place / "tmp"))
    (place / "tmp").mkdir()
    tokenizer = tiny_tokenizer()
    del tokenizer["model"]["merges"][0]
    write_json(write_tiny_whisper(place / "tiny") / "tokenizer.json", tokenizer)
    ran = cli("transcribe", IN, "-o", OUT, "--dry-run", "--model", "./tiny", "--no-vad", "--language", "de")
    assert ran.code == 0, ran.err
    assert "of it weights)" in ran.out
    assert not (place / "cache").exists()
    assert not list((place / "tmp").iterdir())


def test_a_share_of_a_gpu_s_memory_is_not_guessed(run: Run, fake: Fake) -> None:
    fake |= {"weights": 7_000_000, "bytes_per_second": 1_000_000}
    Path("mlxbatch.toml").write_text('[device]\nkind = "gpu"\nmemory_limit = "75%"\n')
    ran = run("--dry-run")
    assert (
        "memory: 13 MB at most, in group 1 (7 MB of it weights); the limit is known once the device is asked" in ran.out
    )
    assert plan_of(run("--dry-run", "--json"))["limit_bytes"] is None
    assert plan_of(run("--dry-run", "--json", "--memory-limit", "1GB"))["limit_bytes"] == 10**9
