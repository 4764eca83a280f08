"""The vocabulary of a tokenizer.json, and whether a model speaks more than English."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mlxbatch.engines.whisper.tokens import Vocabulary, multilingual
from tests.engines.whisper.parts import edit_json, small_vocabulary
from tests.models.tiny import LANGUAGE_CODES, TOKEN_IDS


@pytest.fixture(scope="module")
def vocabulary(tiny: Path) -> Vocabulary:
    return Vocabulary.read(tiny / "tokenizer.json")


def test_special_ids(vocabulary: Vocabulary) -> None:
    assert vocabulary.eot == TOKEN_IDS["<|endoftext|>"]
    assert vocabulary.no_speech == TOKEN_IDS["<|nospeech|>"]
    assert vocabulary.timestamp_begin == TOKEN_IDS["<|0.00|>"]
    assert list(vocabulary.languages) == LANGUAGE_CODES
    assert vocabulary.languages["de"] == TOKEN_IDS["<|de|>"]


def test_prompts(vocabulary: Vocabulary) -> None:
    start, french = TOKEN_IDS["<|startoftranscript|>"], TOKEN_IDS["<|fr|>"]
    assert vocabulary.prompt("fr", "transcribe") == [start, french, TOKEN_IDS["<|transcribe|>"]]
    assert vocabulary.prompt("fr", "translate") == [start, french, TOKEN_IDS["<|translate|>"]]


def test_what_comes_before_a_prompt(vocabulary: Vocabulary) -> None:
    """As openai/whisper encodes an initial prompt, and faster-whisper hotwords ahead of it: a blank leads each."""
    previous, the, a = TOKEN_IDS["<|startofprev|>"], TOKEN_IDS["Ġthe"], TOKEN_IDS["Ġa"]
    assert vocabulary.before("", ()) == vocabulary.before("  \n", ()) == []
    assert vocabulary.before(" the a ", ()) == [previous, the, a]
    assert vocabulary.before("", ("the",)) == [previous, the]
    assert vocabulary.before("a", ("the", "a")) == [previous, the, TOKEN_IDS[","], a, a]


@pytest.mark.parametrize("text", ["a <|en|> b", "<|endoftext|>", "at <|1.00|>"])
def test_a_special_token_is_no_text(vocabulary: Vocabulary, text: str) -> None:
    for prompt, hotwords in ((text, ()), ("", ("the", text))):
        with pytest.raises(ValueError, match=r"<\|(en|endoftext|1\.00)\|>"):
            vocabulary.before(prompt, hotwords)


def test_text_is_what_lies_below_the_end_of_text(vocabulary: Vocabulary) -> None:
    ids = [TOKEN_IDS[token] for token in ("<|1.00|>", "Ġth", "e", "Ġa", "<|2.00|>", "<|endoftext|>")]
    assert vocabulary.text(ids) == " the a"
    assert vocabulary.text([]) == ""


def test_half_a_character_becomes_a_replacement(vocabulary: Vocabulary) -> None:
    assert vocabulary.text([TOKEN_IDS["Ã"]]) == "\N{REPLACEMENT CHARACTER}"
    assert vocabulary.text([TOKEN_IDS["Ã"], TOKEN_IDS["©"]]) == "é"


def test_signs_that_nobody_says_are_suppressed(vocabulary: Vocabulary) -> None:
    assert {TOKEN_IDS[sign] for sign in '"#()*+/:;<=>@[\\]^_`{|}~'} <= set(vocabulary.suppressed)
    assert not {TOKEN_IDS[sign] for sign in "ab,.-'?!"} & set(vocabulary.suppressed)
    assert max(vocabulary.suppressed) < vocabulary.eot


@pytest.mark.real
def test_the_real_vocabulary_suppresses_what_its_makers_do(whisper_base: Path) -> None:
    import json

    vocabulary = Vocabulary.read(whisper_base / "tokenizer.json")
    theirs = json.loads((whisper_base / "generation_config.json").read_text("utf-8"))["suppress_tokens"]
    assert set(vocabulary.suppressed) == {token for token in theirs if token < vocabulary.eot}
    assert len(vocabulary.languages) == 99
    assert (vocabulary.eot, vocabulary.sot, vocabulary.timestamp_begin) == (50257, 50258, 50364)


# ---- one language or many


@pytest.mark.parametrize("said", [True, False])
def test_the_generation_config_decides(tmp_path: Path, said: bool) -> None:
    (tmp_path / "generation_config.json").write_text("{}")
    edit_json(tmp_path / "generation_config.json", is_multilingual=said)
    for size in (1871, 51_864, 51_865):
        assert multilingual(tmp_path, small_vocabulary(), size) is said


@pytest.mark.parametrize("content", [None, "{}", "not JSON", '{"is_multilingual": null}', "[]"])
def test_else_the_vocabulary_s_size(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "generation_config.json").write_text(content)
    found = {size: multilingual(tmp_path, small_vocabulary(), size) for size in (51_864, 51_865, 51_866)}
    assert found == {51_864: False, 51_865: True, 51_866: True}


def test_without_language_tokens_there_is_one_language(tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text('{"is_multilingual": true}')
    assert not multilingual(tmp_path, replace(small_vocabulary(), languages={}), 51_865)
