"""Options of decoding on the command line: their values, what they reach, what a model cannot do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mlxbatch.cli import request
from mlxbatch.types import TranscribeOptions
from tests.engines.whisper.parts import edit_json, short_whisper

from .conftest import Cli, Ran, noise, write
from .running import outputs, run_log

pytestmark = pytest.mark.usefixtures("recordings")


@pytest.fixture
def asked(cli: Cli, fake: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Arguments -> the options that a run would go by."""
    seen: list[TranscribeOptions] = []
    settings = request.run_settings

    def watch(one: request.Request, chosen: Any) -> Any:
        seen.append(one.options)
        return settings(one, chosen)

    monkeypatch.setattr(request, "run_settings", watch)

    def ask(*arguments: str) -> TranscribeOptions:
        ran = cli("transcribe", "in", "-o", "out", "--dry-run", *arguments)
        assert ran.code == 0, ran.err
        return seen[-1]

    return ask


# ---- values


def test_the_options_without_any_are_the_paper_s(asked: Any) -> None:
    assert asked() == TranscribeOptions(vad=True)


def test_each_option_reaches_the_engine_s(asked: Any) -> None:
    found = asked(
        *(
            "--task",
            "translate",
            "--language",
            "german",
            "--prompt",
            " Grüß\nGott. ",
            "--hotwords",
            "Zsófia , Bank,Zsófia",
        ),
        *("--max-tokens", "40", "--temperature", "0,0.3", "--compression-ratio-threshold", "3"),
        *("--logprob-threshold", "-0.5", "--no-speech-threshold", "1"),
    )
    assert found == TranscribeOptions(
        "de", "translate", (0.0, 0.3), 3.0, -0.5, 1.0, "Grüß Gott.", ("Zsófia", "Bank"), 40, vad=True
    )


def test_a_prompt_from_a_file(asked: Any, place: Path) -> None:
    (place / "prompt.txt").write_bytes(b"\xef\xbb\xbfNames:\r\n  Zs\xc3\xb3fia\n")
    assert asked("--prompt", "@prompt.txt").prompt == "Names: Zsófia"


def test_from_the_environment_and_a_settings_file(asked: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "mlxbatch.toml").write_text(
        '[transcribe]\nhotwords = ["Zsófia"]\nprompt = "Hello."\ntemperatures = [0]\nlogprob_threshold = -2\n', "utf-8"
    )
    monkeypatch.setenv("MLXBATCH_PROMPT", "Good day.")
    assert asked("--hotwords", "", "--prompt", "").hotwords == ()
    found = asked("--temperature", "0.5")
    assert (found.hotwords, found.prompt, found.temperatures) == (("Zsófia",), "Good day.", (0.5,))
    assert found.logprob_threshold == -2


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--task", "summarize", "--task"),
        ("--prompt", "@missing.txt", "--prompt: cannot read missing.txt: No such file or directory"),
        ("--prompt", "@in/a.wav", "--prompt: in/a.wav: not UTF-8 text"),
        ("--prompt", "@in", "--prompt: cannot read in: Is a directory"),
        ("--hotwords", " , ", "--hotwords names no word"),
        *(("--max-tokens", value, f"from 8 to 32768, not '{value}'") for value in ("7", "32769", "x", "-8", "1e2", "")),
        *(
            ("--temperature", value, "rising numbers from 0 to 2")
            for value in ("", "x", "0.4,0.2", "0,0", "-1", "2.1", "nan")
        ),
        *(("--compression-ratio-threshold", value, "over 0") for value in ("0", "-1", "inf", "nan", "x")),
        *(("--logprob-threshold", value, "at most 0") for value in ("0.1", "-inf", "nan", "x")),
        *(("--no-speech-threshold", value, "from 0 to 1") for value in ("-0.1", "1.1", "nan", "x")),
    ],
)
def test_a_value_out_of_range(cli: Cli, fake: dict[str, Any], option: str, value: str, said: str) -> None:
    ran = cli("transcribe", "in", "-o", "out", option, value)
    assert ran.code == 2
    assert option in ran.error
    assert said in ran.error
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("max_tokens = 7", "from 8 to 32768"),
        ("temperatures = [0.4, 0.2]", "rising numbers from 0 to 2"),
        ("temperatures = []", "rising numbers from 0 to 2"),
        ("logprob_threshold = 1.0", "at most 0"),
        ("logprob_threshold = -inf", "at most 0"),
        ("no_speech_threshold = 2", "from 0 to 1"),
        ("compression_ratio_threshold = 0", "over 0"),
        ('hotwords = "Zsófia"', "a list of words"),
        ('task = "sing"', '"transcribe" or "translate"'),
        ("hotword = []", "did you mean 'transcribe.hotwords'?"),
    ],
)
def test_a_settings_file_s_values_too(cli: Cli, fake: dict[str, Any], place: Path, line: str, said: str) -> None:
    (place / "mlxbatch.toml").write_text(f"[transcribe]\n{line}\n", "utf-8")
    ran = cli("transcribe", "in", "-o", "out")
    assert ran.code == 2
    assert "mlxbatch.toml:2" in ran.error
    assert said in ran.error


def test_other_options_are_another_transcript(cli: Cli, fake: dict[str, Any]) -> None:
    def done(*arguments: str) -> tuple[int, int]:
        summary = cli("transcribe", "in", "-o", "out", "--workers", "0", "--json", *arguments).summary
        return summary["done"], summary["skipped"]

    assert done() == (3, 0)
    assert done() == (0, 3)
    for way in (("--prompt", "Hello."), ("--hotwords", "Hello"), ("--max-tokens", "20"), ("--task", "translate")):
        assert done(*way) == (3, 0)
        assert done(*way) == (0, 3)


# ---- what a model cannot do


@pytest.fixture
def model(place: Path) -> Path:
    return short_whisper(place / "model")


def transcribe(cli: Cli, *arguments: str) -> Ran:
    return cli("transcribe", "in", "-o", "out", "--model", "model", "--workers", "0", "--offline", *arguments)


@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["run", "dry run"])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--language", "yue"), "model knows 99 languages, but not Cantonese (yue); the nearest is Chinese (zh)"),
        (("--prompt", "the " * 40), "model has room for 31 tokens of prompt and hotwords, these are 40: shorten them"),
        (("--hotwords", "<|en|>"), "model would take <|en|> in the prompt or the hotwords for a command"),
    ],
)
def test_what_the_model_cannot_do_ends_the_run_before_it_begins(
    cli: Cli, model: Path, arguments: tuple[str, ...], said: str, dry: tuple[str, ...]
) -> None:
    ran = transcribe(cli, *arguments, *dry)
    assert (ran.code, outputs() if Path("out").exists() else {}) == (2, {})
    assert said in ran.error
    assert not dry or not Path("out").exists()


@pytest.mark.parametrize(("option", "value"), [("--language", "de"), ("--task", "translate")])
def test_an_english_model_is_asked_for_english(cli: Cli, model: Path, option: str, value: str) -> None:
    edit_json(model / "generation_config.json", is_multilingual=False)
    ran = transcribe(cli, option, value)
    assert ran.code == 2
    assert "model knows English only" in ran.error
    assert [event["event"] for event in run_log()] == ["start", "end"]


def test_the_model_that_takes_over_is_asked_too(cli: Cli, model: Path, place: Path) -> None:
    edit_json(short_whisper(place / "smaller") / "generation_config.json", is_multilingual=False)
    ran = transcribe(cli, "--language", "de", "--fallback-model", "smaller")
    assert ran.code == 2
    assert "smaller knows English only, not German (de)" in ran.error


@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["run", "dry run"])
def test_a_model_that_translates_badly_is_noted(
    cli: Cli, model: Path, monkeypatch: pytest.MonkeyPatch, dry: tuple[str, ...]
) -> None:
    dims = json.loads((model / "config.json").read_text("utf-8"))
    layers = (dims["n_audio_layer"], dims["n_text_layer"])
    monkeypatch.setattr("mlxbatch.engines.whisper.abilities._TURBO", layers)
    (Path("in") / "a.wav").rename("a.wav")
    shutil.rmtree("in")
    command = ("transcribe", "a.wav", "-o", "out", "--model", "model", "--offline")
    assert "not trained" not in cli(*command, "--dry-run").err
    ran = cli(*command, "--task", "translate", *dry)
    assert ran.code == 0
    assert "model was not trained to translate" in ran.err


# ---- what is written


def test_every_format_of_one_run(cli: Cli, fake: dict[str, Any], place: Path) -> None:
    write(place / "in" / "a call.wav", noise(1.5, 9))
    formats = "txt,srt,vtt,tsv,csv,json,jsonl,rttm"
    assert cli("transcribe", "in/a call.wav", "-o", "out", "--workers", "0", "--format", formats).code == 0
    found = outputs()
    assert set(found) == {f"a call.{name}" for name in formats.split(",")}
    assert found["a call.tsv"] == "start\tend\ttext\n0\t1500\t1.50 seconds of sound\n"
    assert json.loads(found["a call.jsonl"])["source"] == "a call.wav"
    assert found["a call.rttm"].startswith("SPEAKER a_call 1 0.000 1.500 ")
    assert Path("out/a call.csv").read_bytes().endswith(b"a call.wav,0.000,1.500,,,1.50 seconds of sound\r\n")


@pytest.mark.parametrize("name", ["transcript", "line"])
def test_the_schema_is_printed(cli: Cli, name: str) -> None:
    ran = cli("schema", name)
    assert ran.code == 0
    assert json.loads(ran.out)["$schema"].startswith("https://json-schema.org/")
