"""Lines and cues of subtitles on the command line: their values, what they reach, what they make anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlxbatch.cli import request
from mlxbatch.cli.request import Request
from mlxbatch.types import TranscribeOptions
from mlxbatch.writers import LineRules
from tests.engines.mlx_audio import tiny
from tests.engines.whisper.parts import short_whisper

from .conftest import Cli, noise, write
from .running import outputs

pytestmark = pytest.mark.usefixtures("recordings")

Asked = tuple[TranscribeOptions, LineRules]


@pytest.fixture
def asked(cli: Cli, fake: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Arguments -> the options and the rules that a run would go by."""
    seen: list[Request] = []
    settings = request.run_settings

    def watch(one: Request, chosen: Any) -> Any:
        seen.append(one)
        return settings(one, chosen)

    monkeypatch.setattr(request, "run_settings", watch)

    def ask(*arguments: str) -> Asked:
        ran = cli("transcribe", "in", "-o", "out", "--dry-run", *arguments)
        assert ran.code == 0, ran.err
        return seen[-1].options, seen[-1].lines

    return ask


# ---- values


def test_without_any_there_are_neither_words_nor_rules(asked: Any) -> None:
    assert asked("--format", "srt") == (TranscribeOptions(vad=True), LineRules())


def test_each_option_reaches_its_place(asked: Any) -> None:
    options, lines = asked(
        *("--format", "srt,json", "--max-line-width", "42", "--max-line-count", "2", "--max-gap", "0.8"),
        *("--highlight", "--encoder-context", "full"),
    )
    assert lines == LineRules(42, 2, 0.8, True)
    assert options == TranscribeOptions(vad=True, words=True, encoder_context="full")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--word-timestamps",), True),
        (("--max-line-width", "42"), False),
        (("--max-line-width", "42", "--no-word-timestamps"), False),
        (("--max-line-count", "2"), True),
        (("--max-gap", "1"), True),
        (("--highlight",), True),
        (("--no-highlight",), False),
    ],
)
def test_rules_that_need_words_ask_for_them(asked: Any, arguments: tuple[str, ...], words: bool) -> None:
    assert asked("--format", "vtt", *arguments)[0].words is words


def test_from_the_environment_and_a_settings_file(asked: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "mlxbatch.toml").write_text(
        "[transcribe]\nencoder_context = 'full'\n[subtitles]\nmax_line_width = 32\nmax_gap = 1\nhighlight = true\n"
    )
    monkeypatch.setenv("MLXBATCH_MAX_LINE_COUNT", "1")
    options, lines = asked("--format", "srt", "--no-highlight", "--max-gap", "0.5")
    assert lines == LineRules(32, 1, 0.5)
    assert options.encoder_context == "full"
    monkeypatch.setenv("MLXBATCH_WORD_TIMESTAMPS", "1")
    assert asked()[0].words


def test_rules_of_a_file_ask_for_no_words_where_there_are_no_subtitles(asked: Any, place: Path) -> None:
    (place / "mlxbatch.toml").write_text("[subtitles]\nhighlight = true\n")
    assert asked("--format", "txt") == (TranscribeOptions(vad=True), LineRules())


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        *(
            ("--max-line-width", value, f"from 8 to 1000, not '{value}'")
            for value in ("7", "1001", "x", "-8", "1e2", "")
        ),
        *(("--max-line-count", value, f"from 1 to 20, not '{value}'") for value in ("0", "21", "two", "-1", "1.5")),
        *(
            ("--max-gap", value, f"is seconds over 0, such as 0.8, not '{value}'")
            for value in ("0", "-1", "inf", "nan", "1s")
        ),
        ("--encoder-context", "half", "--encoder-context"),
    ],
)
def test_a_value_out_of_range(cli: Cli, fake: dict[str, Any], option: str, value: str, said: str) -> None:
    ran = cli("transcribe", "in", "-o", "out", "--format", "srt", option, value)
    assert ran.code == 2
    assert option in ran.error
    assert said in ran.error
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[subtitles]\nmax_line_width = 7\n", "must be a whole number of columns from 8 to 1000"),
        ("[subtitles]\nmax_line_count = 0\n", "must be a whole number of lines from 1 to 20"),
        ("[subtitles]\nmax_gap = 0\n", "must be seconds, over 0"),
        ("[subtitles]\nmax_gap = inf\n", "must be seconds, over 0"),
        ("[subtitles]\nhighlight = 1\n", "must be true (each word"),
        ("[subtitles]\nmax_line_length = 42\n", "did you mean 'subtitles.max_line_width'?"),
        ('[transcribe]\nencoder_context = "half"\n', 'must be "auto"'),
        ("[transcribe]\nword_timestamps = 1\n", "must be true"),
    ],
)
def test_a_settings_file_s_values_too(cli: Cli, fake: dict[str, Any], place: Path, text: str, said: str) -> None:
    (place / "mlxbatch.toml").write_text(text)
    ran = cli("transcribe", "in", "-o", "out")
    assert ran.code == 2
    assert "mlxbatch.toml:2" in ran.error
    assert said in ran.error


def test_rules_that_need_words_and_none_are_refused(cli: Cli, fake: dict[str, Any]) -> None:
    ran = cli(
        "transcribe", "in", "-o", "out", "--format", "srt", "--no-word-timestamps", "--highlight", "--max-gap", "1"
    )
    assert ran.code == 2
    assert "--no-word-timestamps: --max-gap and --highlight go by the times of words; leave out one" in ran.error
    assert not Path("out").exists()


@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["run", "dry run"])
def test_rules_without_subtitles_are_noted(cli: Cli, fake: dict[str, Any], dry: tuple[str, ...]) -> None:
    ran = cli("transcribe", "in", "-o", "out", "--workers", "0", "--max-line-width", "42", *dry)
    assert ran.code == 0
    assert "--max-line-width or MLXBATCH_MAX_LINE_WIDTH: only srt and vtt have lines and cues" in ran.err


# ---- what is written


def test_cues_are_divided_and_words_marked(cli: Cli, fake: dict[str, Any]) -> None:
    """The fake says "1.00 seconds of sound", a quarter of the time each word."""
    rules = ("--max-line-width", "12", "--max-line-count", "1", "--highlight")
    ran = cli("transcribe", "in/a.wav", "-o", "out", "--workers", "0", "--format", "srt,vtt,txt", *rules)
    assert ran.code == 0, ran.err
    found = outputs()
    assert found["a.srt"] == (
        "1\n00:00:00,000 --> 00:00:00,250\n<u>1.00</u> seconds\n\n"
        "2\n00:00:00,250 --> 00:00:00,500\n1.00 <u>seconds</u>\n\n"
        "3\n00:00:00,500 --> 00:00:00,750\n<u>of</u> sound\n\n"
        "4\n00:00:00,750 --> 00:00:01,000\nof <u>sound</u>\n\n"
    )
    assert found["a.vtt"].count("<u>") == 4
    assert found["a.txt"] == "1.00 seconds of sound\n"


def test_both_speakers_of_a_call_are_named_in_each_cue(cli: Cli, fake: dict[str, Any], place: Path) -> None:
    write(place / "in" / "call.wav", np.stack([noise(1.0, 1), noise(1.0, 2)], axis=1))
    names = ("--channels", "split", "--speakers", "agent,customer")
    rules = ("--max-line-width", "20", "--max-line-count", "1")
    ran = cli("transcribe", "in/call.wav", "-o", "out", "--workers", "0", "--format", "srt", *names, *rules)
    assert ran.code == 0, ran.err
    assert [block.split("\n")[2:] for block in outputs()["call.srt"].split("\n\n")[:-1]] == [
        ["agent: 1.00 seconds"],
        ["customer: 1.00"],
        ["customer: seconds"],
        ["agent: of sound"],
        ["customer: of sound"],
    ]


def test_words_are_in_json_where_they_are_asked_for(cli: Cli, fake: dict[str, Any]) -> None:
    run = ("transcribe", "in/a.wav", "-o", "out", "--workers", "0", "--format", "json")
    words = lambda: json.loads(outputs()["a.json"])["segments"][0]["words"]  # noqa: E731
    assert cli(*run).code == 0
    assert words() == []
    assert cli(*run, "--word-timestamps").code == 0
    assert [word["text"] for word in words()] == [" 1.00", " seconds", " of", " sound"]


# ---- what is done again


def test_other_rules_render_what_is_stored(cli: Cli, fake: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    run = ("transcribe", "in", "-o", "out", "--workers", "0", "--json", "--format", "srt")

    def done(*arguments: str) -> tuple[int, int, float]:
        summary = cli(*run, *arguments).summary
        return summary["done"], summary["skipped"], summary["windows"]

    assert done() == (3, 0, 3)
    plain = outputs()
    assert done("--max-line-width", "12") == (3, 0, 0)  # from what is stored
    assert done("--max-line-width", "12") == (0, 3, 0)
    assert done("--highlight") == (3, 0, 3)  # there were no words
    assert done("--highlight", "--max-line-width", "12") == (3, 0, 0)
    assert done("--max-gap", "0.5") == (3, 0, 0)
    assert done() == (3, 0, 0)  # what has words will do
    assert outputs() == plain
    assert done("--encoder-context", "full") == (3, 0, 3)


def test_rules_are_nothing_to_formats_without_lines(cli: Cli, fake: dict[str, Any], place: Path) -> None:
    run = ("transcribe", "in", "-o", "out", "--workers", "0", "--json", "--format", "txt")
    assert cli(*run).summary["done"] == 3
    (place / "mlxbatch.toml").write_text("[subtitles]\nmax_line_width = 12\nhighlight = true\n")
    assert cli(*run).summary["skipped"] == 3


def test_a_dry_run_says_why(cli: Cli, fake: dict[str, Any]) -> None:
    run = ("transcribe", "in/a.wav", "-o", "out", "--workers", "0", "--format", "srt")
    assert cli(*run).code == 0
    assert "formats, lines or speakers changed" in cli(*run, "--max-line-width", "20", "--dry-run").out
    assert "options or model changed" in cli(*run, "--highlight", "--dry-run").out


# ---- what a model cannot do


def test_a_model_without_words_says_so_and_its_cues_are_divided(cli: Cli, place: Path) -> None:
    model = tiny.NAMED["cohere_asr"](place / "model")
    run = ("transcribe", "in/a.wav", "-o", "out", "--model", model, "--language", "en", "--no-vad", "--format", "srt")
    ran = cli(*run, "--workers", "0", "--max-line-width", "8", "--max-line-count", "1", "--encoder-context", "full")
    assert ran.code == 0, ran.err
    assert ran.err.count("Cohere ASR does not tell when a word is spoken: no word has times or is highlighted") == 1
    assert ran.err.count("Cohere ASR takes no --encoder-context") == 1
    assert cli(*run, "--workers", "0", "--json").summary["windows"] == 0  # the same text, so from what is stored


def test_a_whisper_needs_no_note(cli: Cli, place: Path) -> None:
    short_whisper(place / "model")
    ran = cli(
        *("transcribe", "in", "-o", "out", "--model", "model", "--offline", "--no-vad", "--dry-run"),
        *("--format", "srt", "--highlight", "--encoder-context", "full"),
    )
    assert ran.code == 0, ran.err
    assert "words" not in ran.err
