"""Where lines may end in any script, and how wide they are."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxbatch.writers.line_breaks import breaks, columns, ends_clause, ends_sentence
from mlxbatch.writers.plain import one_line


@pytest.mark.parametrize(
    ("text", "wide"),
    [
        ("", 0),
        ("abc", 3),
        ("žluť", 4),
        ("e\u0301", 1),  # an accent of its own
        ("客観的", 6),
        ("ｱｲｳ", 3),  # halfwidth
        ("Ａ", 2),  # fullwidth
        ("한국", 4),
        ("👍", 2),
        ("\u200bกี่", 1),  # a zero width space, one consonant with a vowel and a tone above
    ],
)
def test_columns(text: str, wide: int) -> None:
    assert columns(text) == wide


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("one two", "one |two"),
        ("well-known, isn't it", "well-known, |isn't |it"),
        ("https://example.org/a?b", "https://example.org/a?b"),
        ("天气很好，公园。", "天|气|很|好，|公|园。"),
        ("「猫」だ！", "「猫」|だ！"),
        ("ちょっと、ニャー", "ちょっ|と、|ニャー"),
        ("時々（毎日）", "時々|（毎|日）"),
        ("iPhone手机 3", "iPhone|手|机 |3"),
        ("한국어는 쉽다", "한국어는 |쉽다"),
        ("เก่งมาก", "เก่|ง|มา|ก"),
        ("ខ្មែរ", "ខ្មែ|រ"),
        ("ab\u200bcd", "ab\u200b|cd"),
        ("👨\u200d👩\u200d👧👍🏽", "👨\u200d👩\u200d👧|👍🏽"),
        ("བོད་ཡིག", "བོད་|ཡིག"),
    ],
)
def test_breaks(text: str, parts: str) -> None:
    cuts = [0, *breaks(text), len(text)]
    assert "|".join(text[begin:end] for begin, end in pairwise(cuts)) == parts


@pytest.mark.parametrize(
    "word", ["end.", "end!", 'end."', "what?!", "そうだ。", "（終わり。）", "نعم؟", "है।", "wait…", "no."]
)
def test_ends_of_sentences(word: str) -> None:
    assert ends_sentence(word)


@pytest.mark.parametrize("word", ["end", "end,", "Dr.", "(Mrs.", "J.", "3.5", ".net", "a.b"])
def test_no_ends_of_sentences(word: str) -> None:
    assert not ends_sentence(word)


def test_ends_of_clauses() -> None:
    assert all(map(ends_clause, ["so,", 'so,"', "so;", "so:", "so —", "そう、", "好，"]))
    assert not any(map(ends_clause, ["so", "so.", "1,5", "well-known"]))


@given(st.text(st.characters()))
def test_a_line_neither_begins_nor_ends_with_what_belongs_to_the_other(text: str) -> None:
    text = one_line(text)
    for at in breaks(text):
        assert 0 < at < len(text)
        assert text[at] != " "
        assert text[at] not in "。、，．！？）」』ー々ぁっゃゅょ\u0301"
        assert text[at - 1] not in "（「『“"
