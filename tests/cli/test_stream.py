"""transcribe --stream: lines as they are heard, talk on standard error, nothing written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from jsonschema import Draft202012Validator

from mlxbatch.writers.schema import schema_text

from .conftest import RATE, ROOT, Cli, Ran, finish, noise, program, write

Fake = dict[str, Any]


@pytest.fixture
def stream(cli: Cli, fake: Fake) -> Cli:
    return lambda *arguments: cli("transcribe", *arguments, "--stream", "--workers", "0")


def test_one_recording_is_plain_lines_and_nothing_is_written(stream: Cli, recordings: Path) -> None:
    before = sorted(Path().rglob("*"))
    ran = stream(recordings / "b.wav")
    assert (ran.code, ran.out) == (0, "[00:00:00.000 --> 00:00:02.000] 2.00 seconds of sound\n")
    assert ran.err.splitlines() == ["mlxbatch: loading whisper-base"]
    assert sorted(Path().rglob("*")) == before


def test_of_several_each_line_tells_its_own_in_the_order_in_which_they_were_named(
    stream: Cli, recordings: Path
) -> None:
    write(Path("other/a.wav"), noise(4))
    ran = stream("in/sub", "other/a.wav", "in/a.wav")
    assert ran.code == 0
    assert ran.out.splitlines() == [
        "in/sub/c.wav: [00:00:00.000 --> 00:00:03.000] 3.00 seconds of sound",
        "other/a.wav: [00:00:00.000 --> 00:00:04.000] 4.00 seconds of sound",
        "in/a.wav: [00:00:00.000 --> 00:00:01.000] 1.00 seconds of sound",
    ]


def test_a_long_recording_goes_on_where_the_piece_before_ended(stream: Cli, place: Path) -> None:
    write(place / "long.wav", noise(150))
    ran = stream("long.wav", "--json")
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert len(lines) >= 3
    assert lines[0]["start"] == 0.0
    assert [line["start"] for line in lines[1:]] == [line["end"] for line in lines[:-1]]
    assert lines[-1]["end"] == 150.0
    validator = Draft202012Validator(json.loads(schema_text("line")))
    for line in lines:
        assert line.pop("file") == "long.wav"
        validator.validate(line)


def test_channels_are_told_apart(stream: Cli, place: Path) -> None:
    write(place / "call.wav", np.stack([noise(40, 1), noise(40, 2)], axis=1))
    ran = stream("call.wav", "--channels", "split", "--speakers", "agent")
    first, second, *rest = ran.out.splitlines()
    assert first.split("] ")[1].startswith("agent: ")
    assert second.split("] ")[1].startswith("channel 1: ")
    assert first.split("]")[0] == second.split("]")[0]
    assert len(rest) == 2
    lines = [json.loads(line) for line in stream("call.wav", "--channels", "split", "--json").out.splitlines()]
    assert [(line["channel"], line["speaker"]) for line in lines] == [(0, "channel 0"), (1, "channel 1")] * 2


def test_what_cannot_be_heard_is_said_and_the_others_are_heard(stream: Cli, recordings: Path, fake: Fake) -> None:
    (recordings / "aa.wav").write_text("no sound")
    ran = stream("in")
    assert ran.code == 1
    assert [line.split(": ")[0] for line in ran.out.splitlines()] == ["in/a.wav", "in/b.wav", "in/sub/c.wav"]
    assert "mlxbatch: failed: in/aa.wav: decode: not an audio file that can be read" in ran.err


def test_warnings_are_told_at_the_end_of_their_recording(stream: Cli, place: Path) -> None:
    samples = noise(2)
    samples[5] = np.nan
    write(place / "a.wav", samples)
    ran = stream("a.wav")
    assert (ran.code, len(ran.out.splitlines())) == (0, 1)
    assert "mlxbatch: heard: a.wav (0:02); 1 samples that are not finite numbers were set to 0" in ran.err


def test_an_empty_recording_has_no_lines(stream: Cli, place: Path) -> None:
    write(place / "a.wav", noise(0))
    ran = stream("a.wav", "-v")
    assert (ran.code, ran.out) == (0, "")
    assert "mlxbatch: heard: a.wav (0:00)" in ran.err


def test_nothing_found_is_said(stream: Cli, place: Path) -> None:
    (place / "in").mkdir()
    ran = stream("in")
    assert (ran.code, ran.out) == (0, "")
    assert "nothing to transcribe: no audio files in in" in ran.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "out"], "-o does not go with --stream: a stream writes no files: redirect standard output instead"),
        (["--format", "srt"], "--format does not go with --stream: a stream writes no files"),
        (["--force"], "--force does not go with --stream: a stream remembers nothing"),
        (["--time-limit", "1h"], "--time-limit does not go with --stream"),
        (["--dry-run"], "--dry-run does not go with --stream"),
        (["--metrics-file", "x.prom"], "--metrics-file does not go with --stream"),
        (["--fallback-model", "whisper-base"], "--fallback-model does not go with --stream"),
        (["-"], "- is standard input, which is one recording: name no other input beside it"),
    ],
)
def test_what_means_nothing_for_a_stream_is_refused(
    stream: Cli, recordings: Path, arguments: list[str], words: str
) -> None:
    ran = stream("in/a.wav", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.error.startswith(f"mlxbatch: error: {words}")


def test_what_the_environment_says_for_other_runs_is_no_reason_to_refuse(
    stream: Cli, recordings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLXBATCH_OUTPUT", "out")
    monkeypatch.setenv("MLXBATCH_FORMAT", "srt")
    assert stream("in/a.wav").code == 0
    assert not Path("out").exists()


def test_without_a_stream_an_output_is_asked_for(cli: Cli, recordings: Path) -> None:
    ran = cli("transcribe", "in")
    assert ran.code == 2
    assert "name a directory with --output (-o)" in ran.error


# ---- as a process: the engine in a child of its own


def long_recording(seconds: float = 400.0) -> Path:
    return write(Path("long.wav"), noise(seconds))


def test_a_piece_that_brings_the_engine_down_is_named_and_no_line_comes_twice(place: Path) -> None:
    long_recording(250)
    whole = finish(program("transcribe", "long.wav", "--stream", "--json", fake={}))
    lines = [json.loads(line) for line in whole.out.splitlines()]
    assert len(lines) >= 4
    deadly = lines[1]
    length = round((deadly["end"] - deadly["start"]) * RATE)
    ran = finish(program("transcribe", "long.wav", "--stream", "--json", fake={"dies_on": length}))
    assert ran.code == 1
    assert [json.loads(line) for line in ran.out.splitlines()] == [line for line in lines if line != deadly]
    assert f"failed: long.wav: infer: from {deadly['start']:.1f} to {deadly['end']:.1f} s: " in ran.err
    assert "killed by SIGKILL" in ran.err


def begun(*arguments: str | Path, **fake: Any) -> tuple[subprocess.Popen[str], str]:
    """A stream that takes its time, and its first line."""
    process = program("transcribe", *arguments, "--stream", fake={"seconds_per_batch": 0.5, **fake})
    assert process.stdout is not None
    return process, process.stdout.readline()


def test_ctrl_c_ends_it_and_what_was_told_stays(place: Path) -> None:
    process, first = begun(long_recording(), "--json", "--batch-size", "1")
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    ran = finish(process)
    assert time.monotonic() - began < 10
    assert ran.code == 130
    assert ran.err.splitlines()[-1] == "mlxbatch: interrupted"
    assert json.loads(first)["start"] == 0.0
    assert all(json.loads(line)["file"] == "long.wav" for line in ran.out.splitlines())


def test_a_reader_that_has_enough_ends_it_quietly(place: Path) -> None:
    process, first = begun(long_recording(), "--batch-size", "1")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr:
        said = process.stderr.read()
    assert process.wait(30) == 0
    assert said == "mlxbatch: loading whisper-base\n"
    assert first.startswith("[00:00:00.000 --> ")


def piped(*arguments: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "FAKE_ENGINE": "{}"}
    command = [sys.executable, "-m", "tests.cli.fake_run", "transcribe", "-", "--stream", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe)


def test_standard_input_is_heard_while_it_is_still_coming(place: Path) -> None:
    """As from a recorder: the first piece is told before the rest is there."""
    soundfile.write("a.wav", noise(65), RATE, "PCM_16")
    sound = Path("a.wav").read_bytes()
    process = piped("--json")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(sound[: 44 + 2 * 45 * RATE])
    process.stdin.flush()
    first = json.loads(process.stdout.readline())
    assert (first["file"], first["start"]) == ("-", 0.0)
    out, err = process.communicate(sound[44 + 2 * 45 * RATE :], timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out.splitlines()[-1])["end"] == pytest.approx(65.0, abs=0.01)


def test_ctrl_c_while_it_waits_for_standard_input(place: Path) -> None:
    soundfile.write("a.wav", noise(40), RATE, "PCM_16")
    process = piped()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(Path("a.wav").read_bytes()[:-1000])
    process.stdin.flush()
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130
    _, err = process.communicate(timeout=10)
    assert err.splitlines()[-1] == b"mlxbatch: interrupted"


# ---- real weights


@pytest.mark.real
def test_a_stream_says_what_the_run_over_the_whole_says(whisper_base: Path, place: Path) -> None:
    """A book's sentences with pauses between them, 35 s: two pieces, cut in a pause."""
    clips = sorted((ROOT / "examples" / "books").glob("*.wav"))
    sounds = [soundfile.read(clip, dtype="float32") for clip in clips]
    rate = sounds[0][1]
    pause = np.zeros(round(2 * rate), np.float32)
    joined = np.concatenate([part for samples, _ in sounds for part in (samples, pause)])
    soundfile.write("book.wav", joined, rate, "PCM_16")
    assert len(joined) / rate > 30, "it is one piece"
    whole: Ran = finish(program("transcribe", "book.wav", "-o", "out", "--format", "jsonl", "--offline"), timeout=300)
    assert whole.code == 0, whole.err
    ran = finish(program("transcribe", "book.wav", "--stream", "--json", "--offline"), timeout=300)
    assert ran.code == 0, ran.err
    wanted = [json.loads(line) for line in Path("out/book.jsonl").read_text("utf-8").splitlines()]
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert [(line["text"], line["language"]) for line in lines] == [(line["text"], "en") for line in wanted]
    # Where speech begins again is found from the piece's beginning on, not the recording's.
    for key in ("start", "end"):
        assert [line[key] for line in lines] == pytest.approx([line[key] for line in wanted], abs=0.5)
