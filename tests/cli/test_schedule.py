"""When a run works: waiting for another one, a time limit, and giving way. Real processes over the fake engine."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from .conftest import Cli, finish, noise, program, write
from .running import OUT, engine, log_so_far, nothing_is_left, one_is_done, outputs, slow, until

IN = Path("in")
Fake = dict[str, Any]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--wait", "2x"], "--wait: not a duration: '2x' (write it as 90s, 10m, 2h, 1d or 1h30m)"),
        (["--wait", "-5"], "--wait: not a duration: '-5'"),
        (["--wait", ""], "--wait: not a duration: ''"),
        (["--time-limit", "soon"], "--time-limit: not a duration: 'soon'"),
        (["--time-limit", "0h"], "--time-limit is to be over 0, such as 30m or 6h"),
        (["--time-limit", "99999d"], "--time-limit: not a duration: '99999d' is longer than ten years"),
        (["--max-load", "high"], "--max-load is a number over 0, not 'high'"),
        (["--max-load", "0"], "--max-load is a number over 0, not '0'"),
        (["--max-load", "-1"], "--max-load is a number over 0, not '-1'"),
        (["--max-load", "nan"], "--max-load is a number over 0, not 'nan'"),
        (["--max-load", "inf"], "--max-load is a number over 0, not 'inf'"),
        (["--nice", "20"], "--nice is a whole number from 0 (as it is) to 19, not '20'"),
        (["--nice", "-1"], "--nice is a whole number from 0 (as it is) to 19, not '-1'"),
        (["--nice", "1.5"], "--nice is a whole number from 0 (as it is) to 19, not '1.5'"),
        (["--nice", "²"], "--nice is a whole number from 0 (as it is) to 19, not '²'"),
    ],
)
def test_bad_values_are_named_with_what_would_do(
    cli: Cli, fake: Fake, recordings: Path, arguments: list[str], words: str
) -> None:
    ran = cli("transcribe", "in", "-o", "out", *arguments)
    assert ran.code == 2
    assert words in ran.error
    assert not OUT.exists()


def test_a_bad_value_of_the_environment(cli: Cli, recordings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLXBATCH_TIME_LIMIT", "6 hours")
    ran = cli("transcribe", "in", "-o", "out")
    assert ran.code == 2
    assert "--time-limit: not a duration: '6 hours'" in ran.error


def test_a_system_that_tells_no_load(cli: Cli, recordings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> tuple[float, float, float]:
        raise OSError("Load averages are unobtainable")

    monkeypatch.setattr(os, "getloadavg", fail)
    ran = cli("transcribe", "in", "-o", "out", "--max-load", "4")
    assert ran.code == 2
    assert "--max-load: this system tells no load average" in ran.error


# ---- waiting for another run


def test_the_second_run_waits_and_does_what_is_left(recordings: Path) -> None:
    first = slow()
    second = program("transcribe", "in", "-o", "out", "--wait", "60s", "--json", fake={})
    assert second.stderr is not None
    assert second.stderr.readline().startswith(f"mlxbatch: waiting up to 1m for process {first.pid} on ")
    until(one_is_done, first)
    first.send_signal(signal.SIGTERM)
    assert finish(first).code == 143
    ran = finish(second)
    assert ran.code == 0
    assert ran.summary["skipped"] >= 1
    assert ran.summary["done"] + ran.summary["skipped"] == 3
    assert "waiting" not in ran.err, "it is said once"
    assert len(outputs()) == 3
    assert nothing_is_left()


def test_a_wait_that_was_too_short_and_one_that_is_broken_off(cli: Cli, fake: Fake, recordings: Path) -> None:
    first = slow(seconds_per_batch=3.0)
    ran = cli("transcribe", "in", "-o", "out", "--wait", "0.3")
    assert ran.code == 4
    assert f"in use by process {first.pid}" in ran.error
    second = program("transcribe", "in", "-o", "out", "--wait", "1h", fake={})
    assert second.stderr is not None
    assert "waiting" in second.stderr.readline()
    began = time.monotonic()
    second.send_signal(signal.SIGINT)
    ran = finish(second)
    assert (ran.code, ran.err) == (130, "mlxbatch: interrupted\n")
    assert time.monotonic() - began < 10
    assert json.loads((OUT / ".mlxbatch" / "lock.json").read_text())["pid"] == first.pid
    first.kill()
    finish(first)


# ---- the time limit


def test_a_time_limit_leaves_the_rest_to_the_next_run(cli: Cli, fake: Fake, recordings: Path) -> None:
    for number in range(12):
        write(IN / f"{number:02}.wav", noise(0.25))
    Path("mlxbatch.toml").write_text("[pipeline]\nprefetch_items = 2\n")
    arguments = ["transcribe", "in", "-o", "out", "--batch-size", "1", "--json"]
    first = finish(program(*arguments, "--time-limit", "1.5s", fake={"seconds_per_batch": 0.3}))
    assert first.code == 0
    left = first.summary["left"]
    assert 0 < left <= 15
    assert first.summary["done"] == 15 - left == len(outputs())
    assert f"the time limit of 2s is over: {left} files left, run the same command again to go on" in first.err
    assert (log_so_far()[-1]["event"], log_so_far()[-1]["left"]) == ("end", left)
    assert nothing_is_left()
    second = cli(*arguments)
    assert (second.code, second.summary["done"], second.summary["left"]) == (0, left, 0)
    assert second.summary["skipped"] == 15 - left


def test_what_is_left_stands_in_the_summary(cli: Cli, fake: Fake, recordings: Path) -> None:
    fake["seconds_per_batch"] = 0.3
    write(IN / "bad.wav", noise(1)).write_bytes(b"no sound at all")
    ran = cli("transcribe", "in", "-o", "out", "--workers", "0", "--batch-size", "1", "--time-limit", "0.2")
    assert ran.code == 1, "what failed has failed"
    assert " left in " in ran.err
    assert "(time limit): run the same command again to go on" in ran.err


# ---- giving way


def test_nice_is_the_engine_s_too(recordings: Path) -> None:
    before = os.nice(0)
    process = slow("--nice", "5")
    levels = [psutil.Process(process.pid).nice(), engine(process).nice()]
    assert levels == [min(19, before + 5)] * 2
    process.kill()
    finish(process)


def test_a_load_that_is_never_reached_holds_nothing_back(cli: Cli, fake: Fake, recordings: Path) -> None:
    ran = cli("transcribe", "in", "-o", "out", "--workers", "0", "--max-load", "10000", "--json")
    assert (ran.code, ran.summary["done"]) == (0, 3)
    assert not [event for event in log_so_far() if event["event"] == "governor"]
