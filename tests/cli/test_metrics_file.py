"""`--metrics-file`: written at the end of every run, however it ends."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mlxbatch import exposition
from mlxbatch.cli import request

from .conftest import Cli, finish, noise, program, write
from .running import one_is_done, slow, until

FILE = Path("x.prom")
RUN = ("transcribe", "in", "-o", "out", "--workers", "0", "--metrics-file", FILE)
Fake = dict[str, Any]


def metric(name: str, **labels: str) -> float:
    """The one sample of a name that has these labels among its own."""
    families = text_string_to_metric_families(FILE.read_text("utf-8"))
    found = [one for family in families for one in family.samples if one.name == f"mlxbatch_{name}"]
    (value,) = [one.value for one in found if labels.items() <= one.labels.items()]
    return value


def items() -> dict[str, float]:
    names = ("done", "failed", "quarantined", "skipped", "left")
    return {name: count for name in names if (count := metric("last_run_items", outcome=name))}


def test_a_run_and_the_next_one(cli: Cli, fake: Fake, recordings: Path) -> None:
    began = time.time()
    assert cli(*RUN).code == 0
    assert items() == {"done": 3}
    assert metric("last_run_exit_code", task="transcribe", output=str(Path("out").resolve())) == 0
    assert began <= metric("last_run_timestamp_seconds") == metric("last_success_timestamp_seconds") <= time.time()
    assert metric("last_run_audio_seconds") == pytest.approx(6.0)
    assert metric("last_run_window_latency_seconds_count") == 3
    assert metric("run_info", model="whisper-base", engine="fake", model_sha="0" * 64) == 1
    assert cli(*RUN).code == 0
    assert items() == {"skipped": 3}
    assert metric("last_run_audio_seconds") == 0


def test_failures_keep_the_last_success(cli: Cli, fake: Fake, recordings: Path) -> None:
    assert cli(*RUN).code == 0
    success = metric("last_success_timestamp_seconds")
    (recordings / "text.wav").write_text("no recording")
    assert cli(*RUN).code == 1
    assert items() == {"failed": 1, "skipped": 3}
    assert metric("last_success_timestamp_seconds") == success < metric("last_run_timestamp_seconds")


def test_nothing_to_do(cli: Cli, fake: Fake) -> None:
    Path("in").mkdir()
    assert cli(*RUN).code == 0
    assert items() == {}
    assert metric("last_success_timestamp_seconds") > 0


@pytest.mark.parametrize(
    ("arguments", "code", "left"),
    [(["--profile", "nope"], 2, 0), (["--model", "whisper-bas"], 3, 3), (["nowhere"], 2, 0)],
)
def test_a_run_that_ends_before_it_began(
    cli: Cli, recordings: Path, arguments: list[str], code: int, left: int
) -> None:
    assert cli(*RUN, *arguments).code == code
    assert metric("last_run_exit_code") == code
    assert items() == ({"left": left} if left else {})
    assert metric("last_success_timestamp_seconds") == 0


def test_a_run_that_is_refused_and_the_one_that_holds_the_lock(cli: Cli, fake: Fake, recordings: Path) -> None:
    first = slow("--metrics-file", str(FILE))
    assert cli(*RUN).code == 4
    assert metric("last_run_exit_code") == 4
    assert items() == {"left": 3}
    assert finish(first).code == 0
    assert metric("last_run_exit_code") == 0
    assert items() == {"done": 3}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_stopped(recordings: Path, number: int, code: int) -> None:
    process = slow("--metrics-file", str(FILE))
    until(one_is_done, process)
    process.send_signal(number)
    assert finish(process).code == code
    assert metric("last_run_exit_code") == code
    assert items() == {"done": 1, "left": 2}
    assert metric("last_run_wall_seconds") > 0.5


def test_a_bug_of_ours(cli: Cli, fake: Fake, recordings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "run_settings", lambda *_: 1 // 0)
    assert cli(*RUN).code == 70
    assert metric("last_run_exit_code") == 70


def test_a_place_that_cannot_be_written_is_found_before_anything_is_done(cli: Cli, recordings: Path) -> None:
    ran = cli("transcribe", "in", "-o", "out", "--metrics-file", "none/x.prom", "--profile", "nope")
    assert ran.code == 3
    assert "cannot write the metrics file none/x.prom: No such file or directory" in ran.error
    assert not Path("out").exists()


@pytest.mark.parametrize("failing", [False, True])
def test_a_disk_that_is_full_at_the_end(
    cli: Cli, fake: Fake, recordings: Path, monkeypatch: pytest.MonkeyPatch, failing: bool
) -> None:
    """The figures are lost, which has to be heard of; a failure of the run's own is the worse one."""

    def full(*_: object) -> None:
        raise exposition._unwritable(FILE, OSError(errno.ENOSPC, "No space left on device"))

    monkeypatch.setattr(exposition, "write", full)
    if failing:
        (recordings / "text.wav").write_text("no recording")
    ran = cli(*RUN)
    assert ran.code == (1 if failing else 3)
    assert "cannot write the metrics file x.prom: No space left on device" in ran.error
    assert len(list(Path("out").rglob("*.txt"))) == 3


@pytest.mark.promtool
@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (Debian: prometheus)")
@pytest.mark.parametrize("model", ["whisper-base", 'a "model" of\nC:\\new {le="1"} café # HELP'])
def test_promtool_has_nothing_to_say_of_a_real_run(recordings: Path, model: str) -> None:
    output = 'out "a\n\\b"'
    (recordings / "text.wav").write_text("no recording")
    arguments = ("transcribe", "in", "-o", output, "--model", model, "--metrics-file", FILE)
    assert finish(program(*arguments, fake={})).code == 1
    checked = subprocess.run(["promtool", "check", "metrics"], input=FILE.read_bytes(), capture_output=True)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")
    assert items() == {"done": 3, "failed": 1}


# --- logs of earlier runs --------------------------------------------------------------------------------------------


def logs() -> list[str]:
    return sorted(path.name for path in Path("out/.mlxbatch/runs").iterdir())


def test_old_logs_are_removed(cli: Cli, fake: Fake, recordings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ("transcribe", "in", "-o", "out", "--workers", "0", "-q")
    for _ in range(3):
        assert cli(*run).code == 0
    first, *others = logs()
    Path("out/.mlxbatch/runs/notes.txt").touch()
    assert cli(*run, "--keep-runs", "3").code == 0
    assert len(logs()) == 4
    assert set(others) | {"notes.txt"} < set(logs())
    assert first not in logs()
    monkeypatch.setenv("MLXBATCH_KEEP_RUNS", "2")
    write(recordings / "d.wav", noise(1))
    fake["no_such_setting"] = 1
    assert cli(*run).code == 70
    assert len(logs()) == 3, "a run that fails removes them too, and keeps its own"
    last = json.loads((Path("out/.mlxbatch/runs") / logs()[-2]).read_text().splitlines()[-1])
    assert last["event"] == "end"


def test_a_number_of_runs_that_makes_no_sense(cli: Cli, fake: Fake, recordings: Path) -> None:
    ran = cli("transcribe", "in", "-o", "out", "--keep-runs", "0")
    assert ran.code == 2
    assert "state.keep_runs" in ran.error
    assert "1 to 100000" in ran.error


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(cli: Cli, recordings: Path) -> None:
    Path("locked").mkdir(mode=0o500)
    ran = cli("transcribe", "in", "-o", "out", "--metrics-file", "locked/x.prom")
    assert ran.code == 3
    assert "Permission denied" in ran.error
