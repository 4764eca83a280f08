"""`--channels` and `--speakers`, over the fake engine: its checksums say which samples it got."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .conftest import Cli, Ran, noise, write
from .running import OUT, outputs

IN = Path("in")
Run = Callable[..., Ran]
LEFT, RIGHT = noise(2, 1), noise(2, 2)


@pytest.fixture
def run(cli: Cli, fake: dict[str, Any], place: Path) -> Run:
    """`transcribe in -o out` on a call of 2 s in this process, with further arguments."""
    fake["checksum"] = True
    write(IN / "call.wav", np.stack([LEFT, RIGHT], axis=1))
    return lambda *arguments: cli("transcribe", IN, "-o", OUT, "--workers", "0", *arguments)


def said(samples: np.ndarray) -> str:
    return f"2.00 seconds of sound {zlib.crc32(samples.tobytes()):08x}"


def test_without_a_word_all_channels_are_mixed(run: Run) -> None:
    assert run().code == 0
    mix = np.stack([LEFT, RIGHT]).mean(axis=0, dtype=np.float64).astype(np.float32)
    assert outputs() == {"call.txt": f"{said(mix)}\n"}


def test_both_sides_of_a_call_in_every_format(run: Run) -> None:
    assert run("--channels", "split", "--speakers", "agent,customer", "--format", "txt,srt,vtt,json").code == 0
    found = outputs()
    assert found["call.txt"] == f"agent: {said(LEFT)}\ncustomer: {said(RIGHT)}\n"
    assert found["call.srt"] == (
        f"1\n00:00:00,000 --> 00:00:02,000\nagent: {said(LEFT)}\n\n"
        f"2\n00:00:00,001 --> 00:00:02,000\ncustomer: {said(RIGHT)}\n\n"
    )
    assert found["call.vtt"] == (
        f"WEBVTT\n\n00:00:00.000 --> 00:00:02.000\n<v agent>{said(LEFT)}\n\n"
        f"00:00:00.001 --> 00:00:02.000\n<v customer>{said(RIGHT)}\n\n"
    )
    segments = json.loads(found["call.json"])["segments"]
    assert [(one["channel"], one["speaker"]) for one in segments] == [(0, "agent"), (1, "customer")]


def test_without_names_channels_have_their_numbers(run: Run) -> None:
    run("--channels", "SPLIT")
    assert outputs()["call.txt"] == f"channel 0: {said(LEFT)}\nchannel 1: {said(RIGHT)}\n"


def test_one_channel_by_its_number(run: Run) -> None:
    run("--channels", "1")
    assert outputs()["call.txt"] == f"{said(RIGHT)}\n"
    ran = run("--channels", "1", "--speakers", "agent,customer", "--json")
    assert (ran.summary["rendered"], ran.summary["windows"]) == (1, 0)
    assert outputs()["call.txt"] == f"customer: {said(RIGHT)}\n"


def test_a_channel_that_is_not_there_is_that_files_failure(run: Run) -> None:
    write(IN / "mono.wav", noise(1))
    ran = run("--channels", "1")
    assert ran.code == 1
    assert "in/mono.wav: probe: it has only channel 0, and channel 1 was asked for" in ran.err
    assert list(outputs()) == ["call.txt"]
    dry = run("--channels", "1", "--dry-run", "--force")
    assert "would fail: in/mono.wav: probe: it has only channel 0, and channel 1 was asked for" in dry.out


def test_other_names_are_only_written(run: Run, fake: dict[str, Any]) -> None:
    run("--channels", "split", "--speakers", "agent,customer")
    fake["raises_on"] = len(LEFT)  # the fake would fail, were it asked
    ran = run("--channels", "split", "--speakers", "Ann,Bo", "--json")
    assert (ran.code, ran.summary["rendered"]) == (0, 1)
    assert outputs()["call.txt"].splitlines()[1] == f"Bo: {said(RIGHT)}"
    assert run("--channels", "split", "--speakers", "Ann,Bo", "--json").summary["skipped"] == 1


def test_a_profile_or_the_environment_may_say_split(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("mlxbatch.toml").write_text('[transcribe]\nchannels = "split"\n')
    assert run("--speakers", "agent,customer").code == 0
    assert outputs()["call.txt"].startswith(f"agent: {said(LEFT)}\n")
    monkeypatch.setenv("MLXBATCH_CHANNELS", "0")
    monkeypatch.setenv("MLXBATCH_SPEAKERS", "Ann")
    assert run().code == 0
    assert outputs()["call.txt"] == f"Ann: {said(LEFT)}\n"
    Path("mlxbatch.toml").write_text("[transcribe]\nchannels = -1\n")
    monkeypatch.delenv("MLXBATCH_CHANNELS")
    assert run().error.endswith(
        'mlxbatch.toml:2: transcribe.channels = -1: must be "mix", "split", or a channel\'s number, counted from 0'
    )


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--channels", "spilt"), "--channels: 'spilt' is not mix, split, or a channel's number, counted from 0; did"),
        (("--channels", "split", "--speakers", "a,,b"), "--speakers: 'a,,b' does not name each channel once, as in"),
        (("--channels", "split", "--speakers", "a,b,a"), "--speakers: 'a,b,a' does not name each channel once"),
        (
            ("--speakers", "agent,customer"),
            "--speakers agent,customer: there are no channels of their own in a mix; add",
        ),
    ],
)
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_what_makes_no_sense_is_said_in_one_line(
    run: Run, arguments: tuple[str, ...], error: str, dry: tuple[str, ...]
) -> None:
    ran = run(*arguments, *dry)
    assert ran.code == 2
    assert ran.error.startswith(f"mlxbatch: error: {error}")
    assert not OUT.exists() or outputs() == {}


def test_a_dry_run_plans_a_row_for_each_channel(run: Run) -> None:
    for number in range(3):
        write(IN / f"call{number}.wav", np.stack([LEFT, RIGHT], axis=1))
    ran = run("--channels", "split", "--batch-size", "4", "--dry-run", "--json")
    assert ran.records[-1]["groups"] == 2
    assert run("--batch-size", "4", "--dry-run", "--json").records[-1]["groups"] == 1
    assert run("--channels", "split", "--batch-size", "4", "--json").summary["windows"] == 8
    again = run("--channels", "split", "--dry-run", "--json")
    assert {record["do"] for record in again.records[:-1]} == {"skip"}


def test_a_summary_counts_a_recording_and_its_seconds_once(run: Run) -> None:
    summary = run("--channels", "split", "--json").summary
    assert (summary["done"], summary["audio_seconds"], summary["windows"]) == (1, 2.0, 2)
