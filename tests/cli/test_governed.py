"""What a governed run says and leaves, as the program does it: fallback, refusal, a file that ends the program."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from mlxbatch.cli import request
from mlxbatch.errors import SetupError
from mlxbatch.history import History

from .conftest import Cli, finish, noise, program, write
from .running import run_log

RUN = ("transcribe", "in", "-o", "out", "--format", "txt,json", "--batch-size", "4")


def recordings(count: int) -> None:
    """f00, f01 ...: a second each, and each a little shorter than the one before."""
    for number in range(count):
        write(Path(f"in/f{number:02}.wav"), noise(1.0 - number / 100))


def sizes(monkeypatch: pytest.MonkeyPatch, **table: dict[str, Any]) -> None:
    """Models by name, and what each takes: bytes of weights, and per second of a row."""
    monkeypatch.setattr(
        request,
        "choose",
        lambda name, *, offline, say: request.Chosen("fake", name, name[0] * 64, None, table[name]),
    )


LARGE = {"weights": 850_000, "bytes_per_second": 60_000, "memory_limit": 1_000_000, "seconds_per_batch": 0.05}
SMALL = {"weights": 100_000, "bytes_per_second": 20_000, "memory_limit": 1_000_000}


def test_the_fallback_takes_over_and_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes(monkeypatch, large=LARGE, small=SMALL)
    recordings(8)
    ran = cli(*RUN, "--model", "large", "--fallback-model", "small")
    assert ran.code == 0
    assert "the smaller model takes over" in ran.err
    models = {path.stem: json.loads(path.read_text("utf-8"))["model"] for path in Path("out").glob("*.json")}
    assert len(models) == 8
    assert "small" in models.values()
    items = {Path(event["source"]).stem: event["model"] for event in run_log() if event["event"] == "item"}
    assert items == models
    again = cli(*RUN, "--model", "large", "--fallback-model", "small", "--json")
    assert (again.code, again.summary["skipped"]) == (0, 8)
    strict = cli(*RUN, "--model", "large", "--json")
    assert strict.summary["done"] == list(models.values()).count("small"), "without it they are done again"


def test_refusing_ends_with_3_and_the_next_run_goes_on(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes(monkeypatch, large=LARGE, small=SMALL)
    recordings(8)
    ran = cli(*RUN, "--model", "large", "--on-pressure", "refuse")
    assert ran.code == 3
    assert "memory is at 9" in ran.error
    assert "--on-pressure refuse" in ran.error
    assert run_log()[-1]["governor"]["refuse"] == 1
    assert cli(*RUN, "--model", "large").code == 0
    assert len(list(Path("out").glob("*.txt"))) == 8


def test_a_night_without_its_model_is_a_run_that_the_report_finds(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes(monkeypatch, small=SMALL)
    recordings(2)
    assert cli(*RUN, "--model", "small").code == 0

    def gone(name: str, **how: Any) -> Any:
        raise SetupError(f"model {name!r} is gone")

    monkeypatch.setattr(request, "choose", gone)
    write(Path("in/new.wav"), noise(1.0))
    assert cli(*RUN, "--model", "small").code == 3
    log = run_log()
    assert [event["event"] for event in log] == ["start", "end"]
    assert (log[0]["model"], log[0]["sha"]) == ("small", "")
    assert log[-1]["outcome"] == "SetupError: model 'small' is gone"
    found = cli("report", "out", "--fail-if", "killed or stopped")
    assert found.code == 6


def test_a_night_that_found_nothing_is_written_down_where_there_were_others(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A volume that was not mounted is an empty directory."""
    sizes(monkeypatch, small=SMALL)
    Path("in").mkdir()
    assert cli(*RUN, "--model", "small").code == 0
    assert not Path("out").exists(), "nothing was ever there, and nothing is made"
    recordings(1)
    assert cli(*RUN, "--model", "small").code == 0
    Path("in/f00.wav").unlink()
    assert cli(*RUN, "--model", "small", "--quiet").code == 0
    log = run_log()
    assert (log[-1]["outcome"], log[-1]["done"], log[-1]["skipped"]) == ("finished", 0, 0)
    assert cli("report", "out", "--fail-if", "items<1").code == 6


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("--on-pressure", "flee", '"wait" or "refuse"'),
        ("--memory-limit", "lots", 'a size such as "12GB"'),
        ("--latency-limit", "-1", "seconds per window"),
    ],
)
def test_wrong_values_say_what_is_allowed(cli: Cli, option: str, value: str, allowed: str) -> None:
    recordings(1)
    ran = cli(*RUN, option, value)
    assert ran.code == 2
    assert allowed in ran.error


@pytest.mark.parametrize("stage", ["probe", "decode"])
def test_a_file_that_ends_the_program_does_not_keep_the_others(place: Path, stage: str) -> None:
    """A fault in a decoder's native code takes the run with it. The next runs leave that file for the end."""
    recordings(6)
    deadly = {"FAKE_DEADLY": f"{stage} f01.wav"}
    # Headers are read many under one mark, and two workers decode at once: the second run has several suspects, of
    # which those that are behind the deadly one are left to the third.
    codes = [finish(program(*RUN, fake={}, **deadly)).code for _ in range(3)]
    assert sorted(path.stem for path in Path("out").glob("*.txt")) == ["f00", "f02", "f03", "f04", "f05"]
    codes += [finish(program(*RUN, fake={}, **deadly)).code for _ in range(3)]
    assert codes == [-signal.SIGSEGV] * 5 + [0], "and after five deaths it is passed over"
    with History.open(Path("out")) as history:
        assert history.status() == {"done": 5, "failed": 0, "quarantined": 1}
    ran = finish(program(*RUN, "--retry-quarantined", fake={}))
    assert ran.code == 0
    assert len(list(Path("out").glob("*.txt"))) == 6
