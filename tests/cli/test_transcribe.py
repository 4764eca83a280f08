"""`mlxbatch transcribe` over the fake engine: what is done, what is said, and the exit code."""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlxbatch import blas, disk
from mlxbatch import profile as profile_module
from mlxbatch.cli import request
from mlxbatch.discover import item_id
from mlxbatch.encoder_context import Context
from mlxbatch.hardware import mac
from mlxbatch.history import History
from mlxbatch.ledger import Ledger
from mlxbatch.profile import Loaded, load
from mlxbatch.profile_schema import Profile
from mlxbatch.types import Item
from mlxbatch.writers import files

from .conftest import RATE, Cli, Ran, finish, noise, program, write
from .running import OUT, engine, log_so_far, nothing_is_left, one_is_done, outputs, run_log, slow, until

IN = Path("in")
Run = Callable[..., Ran]
Fake = dict[str, Any]


@pytest.fixture
def run(cli: Cli, fake: Fake, recordings: Path) -> Run:
    """`transcribe in -o out` in this process, with further arguments."""
    return lambda *arguments: cli("transcribe", IN, "-o", OUT, "--workers", "0", *arguments)


# --- a run, and the next ones ----------------------------------------------------------------------------------------


def test_every_recording_gets_its_text(run: Run) -> None:
    ran = run()
    assert ran.code == 0
    assert outputs() == {f"{name}.txt": f"{n}.00 seconds of sound\n" for n, name in enumerate(("a", "b", "sub/c"), 1)}
    assert "3 files done, 0 skipped, 0 failed" in ran.err
    assert ran.out == ""
    assert nothing_is_left()


def test_by_a_child_too(cli: Cli, fake: Fake, recordings: Path) -> None:
    assert cli("transcribe", IN, "-o", OUT).code == 0
    assert len(outputs()) == 3


def test_again_nothing_is_done(run: Run) -> None:
    run()
    ran = run("--json")
    assert ran.code == 0
    assert (ran.summary["done"], ran.summary["skipped"]) == (0, 3)
    assert {record["status"] for record in ran.records[:-1]} == {"skipped"}


def test_only_a_new_and_a_changed_file_are_done(run: Run) -> None:
    run()
    write(IN / "d.wav", noise(4))
    write(IN / "a.wav", noise(1.5))
    ran = run("--json")
    assert sorted(Path(r["source"]).name for r in ran.records if r.get("status") == "done") == ["a.wav", "d.wav"]


def test_a_further_format_is_rendered_without_inference(run: Run, fake: Fake) -> None:
    run()
    fake["raises_on"] = RATE  # the fake would fail, were it asked
    ran = run("--format", "srt,json", "--json")
    assert ran.code == 0
    assert (ran.summary["done"], ran.summary["rendered"], ran.summary["windows"]) == (3, 3, 0)
    assert ran.summary["audio_seconds"] == 0
    assert outputs()["sub/c.srt"].startswith("1\n00:00:00,000 --> 00:00:03,000\n")
    assert json.loads(outputs()["a.json"])["duration"] == 1.0


def test_force_does_all_again(run: Run) -> None:
    run()
    assert run("--force", "--json").summary["windows"] == 3


def test_options_that_change_the_result_do_it_again(run: Run) -> None:
    run()
    ran = run("--language", "German", "--format", "json", "--json")
    assert ran.summary["windows"] == 3
    assert json.loads(outputs()["a.json"])["language"] == "de"


def test_options_of_speed_do_not(run: Run) -> None:
    run()
    assert run("--batch-size", "1", "--profile", "linux-cpu", "--json").summary["skipped"] == 3


def test_a_list_of_files_below_a_root(cli: Cli, fake: Fake, recordings: Path) -> None:
    Path("list").write_bytes(b"in/a.wav\0in/sub/c.wav\0")
    ran = cli("transcribe", "--files-from", "list", "--root", "in", "-o", OUT, "--workers", "0")
    assert ran.code == 0
    assert sorted(outputs()) == ["a.txt", "sub/c.txt"]


def test_a_list_on_standard_input(recordings: Path) -> None:
    arguments = ["transcribe", "--files-from", "-", "-o", "out", "--workers", "0"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.fake_run", *arguments],
        input=b"in/a.wav\n",
        capture_output=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        check=True,
    )
    assert done.stdout == b""
    assert list(outputs()) == ["a.txt"]


def test_the_environment_stands_for_flags_and_flags_win(
    cli: Cli, fake: Fake, recordings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"OUTPUT": "env", "FORMAT": "srt,vtt", "WORKERS": "0", "LANGUAGE": "french", "BATCH_SIZE": "3"}
    for name, value in values.items():
        monkeypatch.setenv(f"MLXBATCH_{name}", value)
    assert cli("transcribe", IN).code == 0
    assert sorted(path.name for path in Path("env").glob("*.*t")) == ["a.srt", "a.vtt", "b.srt", "b.vtt"]
    assert cli("transcribe", IN, "--format", "json", "-o", OUT).code == 0
    assert json.loads(outputs()["a.json"])["language"] == "fr"


def test_a_run_is_written_down(run: Run) -> None:
    run("--batch-size", "2")
    start, plan, *middle, end = run_log()
    assert (start["event"], start["engine"], start["profile"]) == ("start", "fake", load().profile.name)
    assert (start["host"], start["batch_size"], start["dtype"]) == (socket.gethostname(), 2, "float32")
    assert start["versions"]["python"] == start["python"] == platform.python_version()
    assert (plan["event"], plan["items"], plan["groups"]) == ("plan", 3, 2)
    assert [event["source"] for event in middle if event["event"] == "item"] == ["in/sub/c.wav", "in/b.wav", "in/a.wav"]
    spans = [event for event in middle if event["event"] == "span"]
    assert all(0 < span["begin"] <= span["end"] <= end["t"] for span in spans)
    assert (end["event"], end["outcome"], end["done"]) == ("end", "finished", 3)


def test_what_a_run_ran_on_is_in_the_ledger(run: Run) -> None:
    run()
    with History.open(OUT) as history:
        (row,) = history.runs()
    assert row.facts["model"] == "whisper-base"
    assert row.outcome is not None
    assert row.outcome["done"] == 3


def test_what_a_killed_run_left_is_cleared(run: Run) -> None:
    scratch = OUT / ".mlxbatch" / "tmp"
    scratch.mkdir(parents=True)
    (scratch / "half.tmp").write_text("half")
    assert run().code == 0
    assert nothing_is_left()


# --- the engine's spec -----------------------------------------------------------------------------------------------


def asked(profile: Profile) -> request.Request:
    where, settings = request.Where((), None, None, OUT, False, None), Loaded(profile, ())
    return request.Request(where, request.Flags(), settings, None, ("txt",))


def test_the_spec_holds_what_the_profile_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_module, "this_hardware", lambda: mac("Apple M7", "", 48 * 2**30))
    profile, chosen = load("apple-silicon", overrides={"transcribe.batch_size": 12}).profile, Path("model")
    spec = request.engine_spec(asked(profile), request.Chosen("whisper", "x", "0", chosen))
    assert (spec.engine, spec.model, spec.batch_size, spec.dtype) == ("whisper", Path("model"), 12, "float16")
    assert (spec.encode_rows, spec.encode_streams) == (8, 1)
    assert spec.device == {
        "kind": "gpu",
        "memory_limit": "90%",
        "cache_limit": "2GB",
        "wired_limit": "auto",
        "blas": "bundled",
    }
    assert (spec.bits, spec.segment_seconds) == (None, None)
    assert (spec.context, spec.words, spec.stream) == (Context(2.0, 5.0, 16), False, False)
    found = load("apple-silicon", preset="live").profile
    live = request.engine_spec(asked(found), request.Chosen("mlx-audio", "x", "0", chosen))
    assert (live.batch_size, live.bits, live.segment_seconds) == (4, 6, 300.0)
    assert request.model_form(profile) == "float16"
    assert request.model_form(found) == "float16, 6 bits, 300 s"


def test_a_profile_for_another_machine_is_said_and_the_run_goes_on(run: Run) -> None:
    ran = run("--profile", "linux-cpu" if load().profile.device.kind == "gpu" else "apple-m4")
    assert ran.code == 0
    assert ran.err.count(" is meant for ") == 1
    assert len(outputs()) == 3


def test_a_preset_is_named_in_the_run_s_log(run: Run) -> None:
    assert run("--preset", "qa").code == 0
    start = run_log()[0]
    assert (start["profile"], start["batch_size"]) == (
        load(preset="qa").name,
        load(preset="qa").profile.transcribe.batch_size,
    )


def test_a_misspelt_variable_is_not_passed_over(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLXBATCH_OF_MY_OWN", "1")
    monkeypatch.setenv("MLXBATCH_BATCHSIZE", "4")
    ran = run()
    assert ran.code == 2
    assert "unknown variable MLXBATCH_BATCHSIZE in the environment; did you mean 'MLXBATCH_BATCH_SIZE'?" in ran.error
    monkeypatch.delenv("MLXBATCH_BATCHSIZE")
    assert run().code == 0


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("BATCH_SIZE", "99", ["MLXBATCH_BATCH_SIZE", "99", "a whole number from 1 to 64"]),
        ("BATCH_SIZE", "many", ["MLXBATCH_BATCH_SIZE", "must be a whole number"]),
        ("MEMORY_LIMIT", "lots", ["MLXBATCH_MEMORY_LIMIT", '"lots"', '"12GB"']),
        ("PRESET", "qs", ["--preset", "did you mean 'qa'?"]),
    ],
)
def test_a_wrong_value_in_a_variable_names_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, words: list[str]
) -> None:
    monkeypatch.setenv(f"MLXBATCH_{variable}", value)
    ran = run()
    assert ran.code == 2
    assert all(word in ran.error for word in words), ran.error


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has Accelerate")
def test_a_missing_openblas_is_said_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "preload", lambda: False)
    assert run("--profile", "linux-cpu").err.count("OpenBLAS not found") == 1
    assert "OpenBLAS" not in run("--profile", "linux-cpu", "-q").err


# --- before anything is done: usage ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere", "-o", "out"], ["no such file or directory: nowhere"]),
        (["-o", "out"], ["no inputs", "--files-from"]),
        (["in", "-o", "out", "--language", "germn"], ["'germn'", "'german'"]),
        (["in", "-o", "out", "--format", "txt,str"], ["'str'", "'srt'", "txt, srt, vtt, tsv, csv, json, jsonl, rttm"]),
        (["in", "-o", "out", "--format", ","], ["no format"]),
        (["in", "-o", "out", "--profile", "linux-cpi"], ["'linux-cpi'", "'linux-cpu'"]),
        (["in", "-o", "out", "--profile", "./mine.toml"], ["mine.toml"]),
        (["in", "-o", "out", "--batch-size", "65"], ["transcribe.batch_size", "1 to 64"]),
        (["in", "-o", "out", "--workers", "-1"], ["pipeline.workers"]),
        (["in", "-o", "out", "--files-from", "none.txt"], ["none.txt"]),
        (["in", "-o", "out", "--root", "elsewhere"], ["not below --root elsewhere"]),
    ],
)
def test_usage_errors_come_before_anything_is_touched(
    cli: Cli, recordings: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: list[str]
) -> None:
    def resolved(name: str, *, offline: bool, say: object) -> request.Chosen:
        raise AssertionError("the model was looked for")

    monkeypatch.setattr(request, "choose", resolved)
    ran = cli("transcribe", *arguments)
    assert ran.code == 2
    assert all(word in ran.error for word in words), ran.error
    assert not OUT.exists()


def test_a_wrong_key_in_a_settings_file_is_named_with_its_line(run: Run) -> None:
    Path("mlxbatch.toml").write_text("[transcribe]\nbatchsize = 4\n")
    ran = run()
    assert ran.code == 2
    assert "mlxbatch.toml:2" in ran.error
    assert "'transcribe.batch_size'" in ran.error


@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems hold one of the two")
def test_outputs_that_would_collide(run: Run) -> None:
    shutil.copy(IN / "a.wav", IN / "A.wav")
    ran = run()
    assert ran.code == 2
    assert "same output" in ran.error


def test_no_recordings_are_nothing_to_do(cli: Cli, fake: Fake) -> None:
    Path("empty").mkdir()
    Path("empty/readme.md").write_text("x")
    ran = cli("transcribe", "empty", "-o", OUT)
    assert ran.code == 0
    assert "nothing to transcribe: no audio files in empty (1 other file passed over)" in ran.err
    assert not OUT.exists()
    assert cli("transcribe", "empty", "-o", OUT, "--json").summary["done"] == 0


# --- bad input: the others are done ----------------------------------------------------------------------------------


@pytest.fixture
def failed(run: Run) -> Callable[[], str]:
    """Run with one bad file among three good ones: its failure's line. Failures are tried again by the next run."""

    def call() -> str:
        ran = run("--json", "-q")
        assert ran.code == 1
        assert (ran.summary["done"], ran.summary["failed"]) == (3, 1)
        assert "Traceback" not in ran.err
        (line,) = ran.err.splitlines()
        again = run("--json", "-q")
        assert (again.code, again.summary["skipped"], again.summary["failed"]) == (1, 3, 1)
        return line

    return call


def test_an_empty_file(failed: Callable[[], str]) -> None:
    (IN / "empty.wav").touch()
    assert failed().startswith("mlxbatch: failed: in/empty.wav: probe: ")


def test_text_that_is_called_wav(failed: Callable[[], str]) -> None:
    (IN / "text.wav").write_text("This is no recording.\n" * 20)
    assert failed().startswith("mlxbatch: failed: in/text.wav: probe: ")


def test_a_link_to_nothing(failed: Callable[[], str]) -> None:
    (IN / "gone.wav").symlink_to("nowhere.wav")
    assert "in/gone.wav" in failed()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(failed: Callable[[], str]) -> None:
    write(IN / "secret.wav", noise(1)).chmod(0)
    assert "Permission denied" in failed()


def test_a_folder_that_cannot_be_read_counts_as_failed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (IN / "locked").mkdir()
    scandir = os.scandir

    def refuse(path: str) -> Iterator[os.DirEntry[str]]:
        if str(path).endswith("locked"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    ran = run()
    assert ran.code == 1
    assert "in/locked: discover: this folder could not be read: Permission denied" in ran.err
    assert len(outputs()) == 3


@pytest.mark.parametrize("count", [0, 1, 160, 1500])
def test_a_recording_of_a_few_samples(run: Run, count: int) -> None:
    write(IN / "short.wav", noise(1)[:count])
    assert run().code == 0
    assert "short.txt" in outputs()


def test_a_truncated_recording_is_done_with_a_warning(run: Run) -> None:
    content = (IN / "sub" / "c.wav").read_bytes()
    (IN / "cut.wav").write_bytes(content[: len(content) // 2])
    ran = run()
    assert ran.code == 0
    assert "warnings:\n  in/cut.wav: " in ran.err
    assert outputs()["cut.txt"].startswith("1.")


def test_samples_that_are_no_numbers_are_a_warning(run: Run) -> None:
    samples = noise(1)
    samples[100:110] = np.nan
    write(IN / "nan.wav", samples)
    ran = run("--json")
    assert ran.code == 0
    (record,) = [record for record in ran.records if record.get("source") == "in/nan.wav"]
    assert len(record["warnings"]) == 1


@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems take UTF-8 only")
def test_a_name_that_is_no_utf8(run: Run) -> None:
    shutil.copy(IN / "a.wav", IN / os.fsdecode(b"caf\xe9.wav"))
    ran = run("--json", "-v")
    assert ran.code == 0
    assert "in/caf\\xe9.wav" in [record.get("source") for record in ran.records]


def test_a_job_that_does_not_fit_the_memory_fails_by_itself(run: Run, fake: Fake) -> None:
    fake["memory"] = 2 * 64_000
    ran = run("--json", "-q")
    assert ran.code == 1
    assert "failed: in/sub/c.wav: infer: needs more memory" in ran.err
    assert ran.summary["done"] == 2


# --- the environment -------------------------------------------------------------------------------------------------


def test_a_mistyped_model_is_named_with_the_nearest(cli: Cli, recordings: Path) -> None:
    ran = cli("transcribe", IN, "-o", OUT, "--model", "whisper-bas")
    assert ran.code == 3
    assert "did you mean 'whisper-base'?" in ran.error
    assert nothing_is_left()


def test_an_output_with_a_file_in_the_way(run: Run) -> None:
    OUT.write_text("a file")
    ran = run()
    assert ran.code == 3
    assert "out" in ran.error


def test_a_model_that_does_not_load_ends_the_run(run: Run, fake: Fake) -> None:
    fake["no_such_setting"] = 1
    ran = run()
    assert ran.code == 70
    assert "no_such_setting" in ran.error
    assert nothing_is_left()


def test_a_full_disk_ends_the_run_and_leaves_nothing_half(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = files._write, []

    def fill(path: Path, content: bytes) -> None:
        calls.append(path)
        if len(calls) > 1:
            path.write_bytes(content[:3])
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        real(path, content)

    monkeypatch.setattr(files, "_write", fill)
    ran = run()
    assert ran.code == 3
    assert "the disk is full; free some space" in ran.error
    assert len(outputs()) == 1
    assert nothing_is_left()
    assert run_log()[-1]["outcome"].startswith("SetupError")
    monkeypatch.undo()


@pytest.fixture
def small_disk(place: Path) -> Iterator[Path]:
    """`out` on a file system of 400 kB."""
    OUT.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", "out"], capture_output=True)
    if mounted.returncode:
        pytest.skip("this user cannot mount")
    try:
        yield OUT
    finally:
        subprocess.run(["umount", "-l", str(place / "out")], check=True)


on_linux_as_root = pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="needs root on Linux")


@on_linux_as_root
def test_a_disk_that_is_too_small_is_seen_before_anything_is_done(
    cli: Cli, fake: Fake, recordings: Path, small_disk: Path
) -> None:
    ran = cli("transcribe", IN, "-o", OUT, "--workers", "0", "-q")
    assert ran.code == 3
    assert re.search(r"not enough room on the disk of out: \d MB free, 10\d MB needed", ran.error)
    assert outputs() == {}
    assert nothing_is_left()


@on_linux_as_root
def test_a_disk_that_is_really_full(
    cli: Cli, fake: Fake, recordings: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Someone else fills it while the run goes."""
    monkeypatch.setattr(disk.Space, "require", lambda self, needed=None: None)
    for number in range(400):
        shutil.copy(IN / "a.wav", IN / f"{number:03d}.wav")
    ran = cli("transcribe", IN, "-o", OUT, "--workers", "0", "-q")
    assert ran.code == 3
    assert "full" in ran.error or "No space left" in ran.error
    assert all(text == "1.00 seconds of sound\n" for name, text in outputs().items() if name[0].isdigit())
    assert nothing_is_left()


def test_a_damaged_ledger_says_the_way_out(run: Run) -> None:
    run()
    (OUT / ".mlxbatch" / "ledger.sqlite3").write_bytes(b"not a database" * 1000)
    ran = run()
    assert ran.code == 5
    assert "mv " in ran.error


# --- locks and signals: real processes -------------------------------------------------------------------------------


def test_two_runs_on_one_output(cli: Cli, fake: Fake, recordings: Path) -> None:
    first = slow()
    ran = cli("transcribe", IN, "-o", OUT)
    assert ran.code == 4
    assert f"process {first.pid}" in ran.error
    assert finish(first).code == 0


def test_the_lock_of_another_host_is_taken_on_demand_only(run: Run) -> None:
    run()
    holder = {"pid": 1, "host": f"not-{socket.gethostname()}", "started": "now", "command": "mlxbatch", "born": 1.0}
    (OUT / ".mlxbatch" / "lock.json").write_text(json.dumps(holder))
    ran = run()
    assert ran.code == 4
    assert "--break-lock" in ran.error
    assert run("--break-lock").code == 0


@pytest.mark.parametrize("workers", ["2", "0"])
@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_ends_the_run_and_keeps_what_is_done(
    cli: Cli, fake: Fake, recordings: Path, number: int, code: int, word: str, workers: str
) -> None:
    process = slow("--workers", workers)
    child = engine(process) if workers != "0" else None
    until(one_is_done, process)
    began = time.monotonic()
    process.send_signal(number)
    ran = finish(process)
    assert time.monotonic() - began < 10
    assert ran.code == code
    assert f"mlxbatch: {word}: 1 done, run the same command again to go on" in ran.err
    assert "Traceback" not in ran.err
    assert "leaked" not in ran.err
    assert child is None or not child.is_running()
    assert list(outputs()) == ["sub/c.txt"]
    assert nothing_is_left()
    assert run_log()[-1]["event"] == "end"
    ran = cli("transcribe", IN, "-o", OUT, "--json", "-q")
    assert (ran.code, ran.summary["done"], ran.summary["skipped"]) == (0, 2, 1)


def test_while_the_engine_loads(recordings: Path) -> None:
    process = program("transcribe", "in", "-o", "out", fake={"load_seconds": 30.0})
    until(lambda: log_so_far(), process)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    ran = finish(process, timeout=5)
    assert ran.code == 143
    assert "leaked" not in ran.err
    assert nothing_is_left()


def test_a_second_signal_ends_at_once(recordings: Path) -> None:
    """The first is held up: the engine's thread is in the middle of a batch. The exit code tells which one ended it:
    two signals of one number could arrive as one."""
    process = slow("--workers", "0", "--batch-size", "3", seconds_per_batch=20.0)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    assert finish(process).code == 143


def test_a_killed_run_costs_the_work_in_flight(cli: Cli, fake: Fake, recordings: Path) -> None:
    process = slow()
    child = engine(process)
    until(one_is_done, process)
    process.kill()
    finish(process)
    child.wait(5)
    ran = cli("transcribe", IN, "-o", OUT, "--json", "-q")
    assert ran.code == 0
    assert ran.summary["skipped"] >= 1
    assert len(outputs()) == 3


def test_an_engine_that_is_killed_is_replaced(recordings: Path) -> None:
    process = slow("--json")
    engine(process).kill()
    ran = finish(process)
    assert ran.code == 0
    assert ran.summary["done"] == 3


def test_a_recording_that_kills_the_engine_fails_alone_and_once(run: Run, cli: Cli, fake: Fake) -> None:
    fake["dies_on"] = 2 * RATE
    ran = cli("transcribe", IN, "-o", OUT, "--json", "-q")
    assert ran.code == 1
    assert "failed: in/b.wav: infer: the engine's process was killed by SIGKILL" in ran.err
    assert ran.summary["done"] == 2
    ran = cli("transcribe", IN, "-o", OUT, "--json", "-q")
    assert (ran.code, ran.summary["skipped"]) == (0, 3)
    (why,) = [record["why"] for record in ran.records if record.get("source") == "in/b.wav"]
    assert why.startswith("quarantined: the engine's process was killed by SIGKILL")


# --- quarantine ------------------------------------------------------------------------------------------------------


def test_a_quarantined_recording_is_passed_over_until_it_is_asked_for_or_changes(run: Run) -> None:
    path = IN / "b.wav"
    with Ledger.open(OUT) as ledger:
        ledger.failed(Item(item_id(path, "transcribe"), path, Path("b")), "infer", "killed", quarantined=True)
    ran = run("--json", "-q")
    assert (ran.code, ran.summary["done"], ran.summary["skipped"]) == (0, 2, 1)
    assert [record["why"] for record in ran.records if record.get("status") == "skipped"] == ["quarantined: killed"]
    ran = run("--dry-run", "--json")
    assert [record["do"] for record in ran.records[:-1]] == ["skip"] * 3
    assert [record["why"] for record in ran.records[:-1] if "in/b" in record["source"]] == ["quarantined: killed"]
    assert run("--dry-run", "--retry-quarantined", "--json").records[1]["why"] == "--retry-quarantined"
    ran = run("--retry-quarantined", "--json", "-q")
    assert (ran.code, ran.summary["done"], ran.summary["skipped"]) == (0, 1, 2)
    assert run("--json", "-q").summary["skipped"] == 3
