"""What a model can be asked for, and how it is told what it cannot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mlxbatch.engines.whisper.abilities import Abilities
from mlxbatch.types import TranscribeOptions
from tests.engines.whisper.parts import edit_json
from tests.models.tiny import write_tiny_whisper


@pytest.fixture(scope="module")
def many(tiny: Path) -> Abilities:
    return Abilities.read(tiny)


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory) -> Abilities:
    directory = write_tiny_whisper(tmp_path_factory.mktemp("english") / "model")
    edit_json(directory / "generation_config.json", is_multilingual=False)
    return Abilities.read(directory)


@pytest.mark.parametrize(
    "options",
    [
        TranscribeOptions(),
        TranscribeOptions(language="de", task="translate"),
        TranscribeOptions(language="en", prompt="the a the", hotwords=("the", "a")),
    ],
)
def test_what_can_be_asked(many: Abilities, options: TranscribeOptions) -> None:
    assert many.refusal(options) is None
    assert many.note(options) is None


def test_a_language_it_lacks(many: Abilities) -> None:
    wanted = "knows 99 languages, but not Cantonese (yue); the nearest is Chinese (zh)"
    assert many.refusal(TranscribeOptions(language="yue")) == wanted
    few = replace(many, languages={"en": 1})
    assert few.refusal(TranscribeOptions(language="yue")) == "knows 1 language, but not Cantonese (yue)"


def test_english_only(english: Abilities) -> None:
    assert english.languages == {}
    assert english.refusal(TranscribeOptions()) is english.refusal(TranscribeOptions(language="en")) is None
    german = english.refusal(TranscribeOptions(language="de"))
    assert german == "knows English only, not German (de): a multilingual model knows more"
    translated = english.refusal(TranscribeOptions(task="translate"))
    assert translated == "knows English only and cannot translate: a multilingual model can"


def test_the_longest_prompt_and_one_token_more(many: Abilities) -> None:
    assert many.prompt_tokens == 223
    assert many.refusal(TranscribeOptions(prompt="a " * 223)) is None
    wanted = "has room for 223 tokens of prompt and hotwords, these are 224: shorten them"
    assert many.refusal(TranscribeOptions(prompt="a " * 224)) == wanted
    assert many.refusal(TranscribeOptions(prompt="a " * 222, hotwords=("the", "a"))) == wanted.replace("224", "225")


def test_a_command_in_a_prompt(many: Abilities) -> None:
    wanted = "would take <|de|> in the prompt or the hotwords for a command: leave it out"
    assert many.refusal(TranscribeOptions(prompt="a <|de|>")) == wanted


def test_turbo_was_not_trained_to_translate(many: Abilities) -> None:
    turbo = replace(many, dims=replace(many.dims, n_audio_layer=32, n_text_layer=4))
    assert turbo.refusal(TranscribeOptions(task="translate")) is None
    assert "not trained to translate" in str(turbo.note(TranscribeOptions(task="translate")))
    assert turbo.note(TranscribeOptions()) is None
