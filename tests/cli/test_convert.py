"""`mlxbatch convert`: options, what is shown, exit codes; and that its results are models like any other."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from mlxbatch.cli import convert_progress
from mlxbatch.cli.convert_progress import Bar, Lines, step_line, view
from mlxbatch.convert import run
from mlxbatch.convert.reload import Reloaded
from mlxbatch.convert.write import Step
from mlxbatch.errors import LockedError, QualityLost, SetupError
from tests.convert.mlx_source import open_mlx
from tests.models.tiny import write_tiny_whisper

from .conftest import Cli, noise, write


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_whisper(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(autouse=True)
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources in MLX's layout alone, no fresh process, no proof."""
    monkeypatch.setattr(run, "_opened", lambda order, say: open_mlx(order.source))
    monkeypatch.setattr(run, "reload", lambda directory: Reloaded(True, form="float32 on cpu"))
    monkeypatch.setattr(run, "_clips", lambda order: None)
    monkeypatch.setattr(run, "_proven", lambda *given: None)


def test_the_help_teaches(cli: Cli) -> None:
    ran = cli("convert", "--help")
    assert ran.code == 0
    assert ran.out.count("mlxbatch convert") >= 5
    for word in ("Precision", "Proof", "Exit codes", "--model models/small"):
        assert word in ran.out


def test_a_table_of_the_original_and_the_model(cli: Cli, tiny: Path) -> None:
    ran = cli("convert", tiny, "-o", "out", "--bits", "4")
    assert ran.code == 0
    head, original, model, *rest = ran.out.splitlines()
    assert head.split() == ["MODEL", "SIZE", "SHARE", "BITS/WEIGHT", "LAYERS", "FULL"]
    assert original.split()[-1] == "16.00"
    name, size, unit, share, per_weight, *layers = model.split()
    assert (name, unit, layers) == (str(Path("out").absolute()), "MB", ["33", "x", "4", "0"])
    assert (float(size) < 1, share, 4.5 < float(per_weight) < 7) == (True, share, True)
    assert rest[0] == "loaded and run in a fresh process, float32 on cpu"
    assert "of memory" in rest[1]
    assert "mlxbatch: the conversion needs" in ran.err
    assert sorted(path.name for path in Path().iterdir()) == ["out"]


def test_a_record_for_programs(cli: Cli, tiny: Path) -> None:
    ran = cli("convert", tiny, "-o", "out", "--bits", "8,4", "--json", "--quiet", "--dtype", "bfloat16")
    assert (ran.code, ran.err) == (0, "")
    eight, four = ran.records
    assert [record["path"] for record in ran.records] == [str(Path(f"out-{bits}bit").absolute()) for bits in (8, 4)]
    assert four["weight_bytes"] < eight["weight_bytes"] < eight["original"]["weight_bytes"]
    assert four["original"]["bits_per_weight"] == 16
    assert four["layers"]["decoder.token_embedding"] == {"bits": 4, "group_size": 64, "mode": "affine"}
    assert (four["event"], four["dtype"], four["kept"], four["quality"]) == ("converted", "bfloat16", {}, None)
    assert four["ran"] is True
    assert four["peak_bytes"] > 10**7
    size = (Path("out-4bit") / "model.safetensors").stat().st_size
    assert 0 < size - four["weight_bytes"] < 20_000


def test_a_dry_run_tells_all_and_writes_nothing(cli: Cli, tiny: Path) -> None:
    ran = cli("convert", tiny, "-o", "out", "--dry-run")
    assert ran.code == 0
    assert "33 x 6" in ran.out
    assert ran.out.endswith("; nothing was written\n")
    (record,) = cli("convert", tiny, "-o", "out", "--dry-run", "--json").records
    assert record["event"] == "plan"
    assert record["disk_bytes"] > record["weight_bytes"]
    assert len(record["layers"]) == 33
    assert list(Path().iterdir()) == []


def test_layers_that_stay_full_are_listed_with_the_reason(cli: Cli, tiny: Path) -> None:
    Path("mine.toml").write_text('[layers]\n"decoder.token_embedding" = false\n')
    ran = cli("convert", tiny, "-o", "out", "--recipe", "mine.toml")
    assert "kept full, because the recipe keeps it full: decoder.token_embedding" in ran.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--bits", "7"], "MLX has none with 7"),
        (["--bits", "four"], "--bits is a number such as 6, or several with commas between, not 'four'"),
        (["--bits", "8,"], "--bits is a number such as 6"),
        (["--mode", "mxfp4"], "--mode mxfp4 is not for a whisper model"),
        (["--mode", "int4"], "'int4' is not one of 'affine', 'mxfp4', 'mxfp8', 'nvfp4'"),
        (["--recipe", "none.toml"], "cannot read none.toml"),
        (["--target-size", "small"], "--target-size: not a size: 'small'"),
        (["--target-size", "1MB", "--bits", "4"], "--target-size finds the bits of each layer by itself"),
        (["--target-size", "1MB", "--target-wer-loss", "1"], "are two goals: give one"),
        (["--target-wer-loss", "much"], "--target-wer-loss is a number from 0 on, not 'much'"),
        (["--max-kl", "-1"], "--max-kl is a number from 0 on"),
        (["--max-wer-loss", "1", "--verify", "none"], "--max-wer-loss has to be measured"),
        (["--calibration", "nowhere"], "--calibration: nowhere: no such file or directory"),
    ],
)
def test_options_that_are_wrong(cli: Cli, tiny: Path, arguments: list[str], said: str) -> None:
    ran = cli("convert", tiny, "-o", "out", *arguments)
    assert ran.code == 2
    assert said in ran.error
    assert ran.out == ""
    assert not Path("out").exists()


@pytest.mark.parametrize(("error", "code"), [(SetupError("x"), 3), (LockedError("x"), 4), (KeyboardInterrupt(), 130)])
def test_exit_codes(cli: Cli, tiny: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int) -> None:
    def fail(*given: Any) -> None:
        raise error

    monkeypatch.setattr(run, "_proven", fail)
    assert cli("convert", tiny, "-o", "out").code == code
    assert list(Path().iterdir()) == []


def test_a_model_that_loses_too_much(cli: Cli, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def prove(model: Any, *given: Any) -> None:
        if model.place.target.name == "out-2bit":
            raise QualityLost("it loses 9.1 points")

    monkeypatch.setattr(run, "_proven", prove)
    ran = cli("convert", tiny, "-o", "out", "--bits", "8,2")
    assert ran.code == 1
    assert ran.error.endswith("out-2bit: it loses 9.1 points")
    assert "out-8bit" in ran.out
    assert "out-2bit" not in ran.out
    ran = cli("convert", tiny, "-o", "out", "--bits", "8,2", "--json", "--force")
    assert [record["event"] for record in ran.records] == ["converted", "refused"]


# ---- what is shown meanwhile


def test_lines_come_every_few_seconds_of_work() -> None:
    now = iter([0.0, 1.0, 6.0, 7.0, 12.0])
    stream = io.StringIO()
    with Lines(stream, clock=lambda: next(now)) as shown:
        for done in range(1, 6):
            shown.step(Step(f"w{done}", done * 10**9, 5 * 10**9))
    assert stream.getvalue().splitlines() == [
        "mlxbatch: 60%: 3.0 GB of 5.0 GB, 0:04 left, w3",
        "mlxbatch: 100%: 5.0 GB of 5.0 GB, 0:00 left, w5",
    ]


def test_quiet_says_nothing() -> None:
    stream = io.StringIO()
    with Lines(stream, quiet=True) as shown:
        shown.say("x")
        shown.note("y")
    assert stream.getvalue() == ""


def test_a_step_of_nothing() -> None:
    assert step_line(Step("w", 0, 0), 1.0) == "100%: 0 MB of 0 MB, 0:00 left, w"


def test_a_bar_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    monkeypatch.setattr(convert_progress.sys, "stderr", stream)
    with view(quiet=False, as_json=False) as shown:
        assert isinstance(shown, Bar)
        shown.step(Step("decoder.[x]", 1, 4))
        shown.say("a [line]")
    assert "decoder.[x]" in stream.getvalue()
    assert "mlxbatch: a [line]" in stream.getvalue()
    assert type(view(quiet=True, as_json=False)) is Lines


def test_a_stream_that_is_gone_ends_nothing(tmp_path: Path) -> None:
    stream = (tmp_path / "closed").open("w")
    stream.close()
    with Lines(stream) as shown:
        shown.say("x")


# ---- a result is a model like any other


SHORT = ("--language", "en", "--max-tokens", "8", "--no-vad", "--offline", "--format", "json")


def test_a_converted_model_takes_over_where_memory_is_short(cli: Cli, tiny: Path) -> None:
    assert cli("convert", tiny, "-o", "tiny", "--bits", "8,4").code == 0
    Path("mlxbatch.toml").write_text('[governor]\nfallback_model = "tiny-4bit"\n')
    for number in range(3):
        write(Path(f"in/{number}.wav"), noise(1.0, number))
    ran = cli("transcribe", "in", "-o", "out", "--model", "tiny-8bit", "--memory-limit", "6MB", *SHORT)
    assert ran.code == 0, ran.err
    assert "the smaller model takes over" in ran.err
    models = {json.loads(path.read_text("utf-8"))["model"] for path in Path("out").glob("*.json")}
    assert "tiny-4bit" in models
