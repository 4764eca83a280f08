"""Word error rates on normalized text."""

from __future__ import annotations

import sys

import pytest

from mlxbatch.errors import SetupError, UsageError
from mlxbatch.quality import normalizer, wer


def test_case_punctuation_contractions_and_numbers_are_no_errors() -> None:
    assert wer(["I won't pay twenty-five dollars, Mr. Smith."], ["i will not pay $25 mister smith"]) == 0.0


def test_the_rate_is_of_the_corpus_not_the_mean_of_its_files() -> None:
    assert wer(["one cat sat on the mat with a", "dog"], ["one cat sat on the mat with a", "cow"]) == pytest.approx(
        1 / 9
    )


def test_substitutions_deletions_and_insertions_count() -> None:
    assert wer(["the cat sat down"], ["the dog sat"]) == 0.5
    assert wer(["cat"], ["cat cat cat"]) == 2.0


def test_an_empty_reference_counts_what_was_heard_in_it() -> None:
    assert wer(["", "cat sat"], ["you", "cat sat"]) == 0.5
    assert wer(["um, [noise]"], [""]) == 0.0
    assert wer([""], ["you"]) == float("inf")
    assert wer([], []) == 0.0


def test_other_languages_keep_their_words_and_lose_case_and_punctuation() -> None:
    assert wer(["Größe, zählt!"], ["größe zählt"], language="German") == 0.0
    assert wer(["zwei Hunde"], ["2 Hunde"], language="de") == 0.5


def test_languages_without_spaces_are_counted_by_character() -> None:
    assert normalizer("ja")("東京です。") == "東 京 で す"
    assert wer(["今天天气"], ["今天天汽"], language="zh") == 0.25


def test_texts_that_do_not_pair_up_and_unknown_languages() -> None:
    with pytest.raises(ValueError, match="2 references, but 1 hypotheses"):
        wer(["a", "b"], ["a"])
    with pytest.raises(UsageError, match="unknown language 'klingon'"):
        wer(["a"], ["a"], language="klingon")


@pytest.mark.parametrize(
    ("module", "language"), [("jiwer", "en"), ("whisper_normalizer.english", "en"), ("whisper_normalizer.basic", "de")]
)
def test_a_missing_extra_names_the_command(monkeypatch: pytest.MonkeyPatch, module: str, language: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SetupError, match=rf"needs {module}: pip install 'mlxbatch\[quality\]'"):
        wer(["a"], ["a"], language)
