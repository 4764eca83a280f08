"""Tokens into words: where one ends, whose a sign is, and how long a word may last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxbatch.engines.whisper.tokens import Vocabulary
from mlxbatch.engines.whisper.wording import UNSPACED, split, timed_words, within
from mlxbatch.types import Word


class Pieces:
    """A vocabulary of the bytes it has seen: ids for them, and their text."""

    def __init__(self) -> None:
        self.known: list[bytes] = []

    def ids(self, *pieces: str | bytes) -> list[int]:
        self.known += [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
        return list(range(len(self.known) - len(pieces), len(self.known)))

    def text(self, ids: Sequence[int]) -> str:
        return b"".join(self.known[number] for number in ids).decode("utf-8", "replace")


def parts(pieces: Sequence[str | bytes], language: str = "en") -> list[tuple[str, int]]:
    known = Pieces()
    return split(known.ids(*pieces), known.text, language)


@pytest.mark.parametrize(
    ("pieces", "wanted"),
    [
        ([" Hello", " world"], [(" Hello", 1), (" world", 1)]),
        ([" un", "believ", "able", "!"], [(" unbelievable", 3), ("!", 1)]),
        (["No", " blank"], [("No", 1), (" blank", 1)]),
        ([" well", "-", "known", ","], [(" well-known", 3), (",", 1)]),
        ([" 3", ".", "5", "."], [(" 3.5", 3), (".", 1)]),
        ([" it", "'s", " U", ".", "S", "."], [(" it's", 2), (" U.S", 3), (".", 1)]),
        ([" oh", ".", ".", "."], [(" oh", 1), (".", 1), (".", 1), (".", 1)]),
        (["."], [(".", 1)]),
        ([" ", "x"], [(" x", 2)]),
        ([], []),
    ],
)
def test_words_begin_at_blanks_and_signs_end_them(pieces: list[str], wanted: list[tuple[str, int]]) -> None:
    assert parts(pieces) == wanted


@pytest.mark.parametrize("language", sorted(UNSPACED))
def test_without_blanks_each_token_of_whole_characters_is_a_word(language: str) -> None:
    assert parts(["今日", "は", "。"], language) == [("今日", 1), ("は", 1), ("。", 1)]
    assert parts(["今日", "は"], "ko") == [("今日は", 2)]


def test_a_character_over_tokens_comes_whole() -> None:
    flag = "é".encode()
    assert parts([" caf", flag[:1], flag[1:], " ok"]) == [(" café", 3), (" ok", 1)]
    wide = "語".encode()
    assert parts(["日", wide[:1], wide[1:2], wide[2:], "本"], "ja") == [("日", 1), ("語", 3), ("本", 1)]


@pytest.mark.parametrize("broken", [b"\xe8", b"\xe8\xaa", b"\xff", b"\x80\x80"])
def test_bytes_that_are_no_character_are_not_lost(broken: bytes) -> None:
    known = Pieces()
    ids = known.ids(" a", *(broken[i : i + 1] for i in range(len(broken))), " b")
    for tokens in (ids, ids[:-1]):
        found = split(tokens, known.text, "en")
        assert "".join(text for text, _ in found) == known.text(tokens)
        assert sum(count for _, count in found) == len(tokens)


PIECE = st.one_of(st.text("aé語 .,'\"-(", min_size=1, max_size=3).map(str.encode), st.binary(min_size=1, max_size=2))


@given(pieces=st.lists(PIECE, max_size=12), language=st.sampled_from(["en", "ja"]), data=st.data())
def test_words_joined_are_the_text_and_in_order(pieces: list[bytes], language: str, data: st.DataObject) -> None:
    known = Pieces()
    ids = known.ids(*pieces)
    cut = data.draw(st.integers(0, len(ids)))
    segments = [ids[:cut], ids[cut:]]
    steps = data.draw(st.lists(st.integers(0, 100), min_size=len(ids) + 1, max_size=len(ids) + 1).map(sorted))
    found = timed_words(segments, [0.02 * step for step in steps], [-0.5] * len(ids), known.text, language)
    for words, tokens in zip(found, segments, strict=True):
        assert "".join(word.text for word in words) == known.text(tokens)
        assert all(word.text for word in words)
    said = [word for words in found for word in words]
    assert all(word.start <= word.end for word in said)
    assert all(one.end <= other.start for one, other in pairwise(said))


def timed(
    pieces: Sequence[Sequence[str]], times: Sequence[float], logprobs: Sequence[float] | None = None
) -> list[Word]:
    known = Pieces()
    segments = [known.ids(*segment) for segment in pieces]
    said = logprobs or [0.0] * (len(times) - 1)
    return [word for words in timed_words(segments, times, said, known.text, "en") for word in words]


def test_a_word_is_said_from_its_first_token_to_the_next_word_s() -> None:
    words = timed([[" so", " un", "real", " it", " is"]], [0.0, 0.2, 0.3, 0.6, 0.7, 0.9])
    assert [(word.text, word.start, word.end) for word in words] == [
        (" so", 0.0, 0.2),
        (" unreal", 0.2, 0.6),
        (" it", 0.6, 0.7),
        (" is", 0.7, 0.9),
    ]


def test_its_probability_is_the_mean_of_its_tokens_without_the_signs() -> None:
    words = timed([[" un", "real", "."]], [0.0, 0.1, 0.2, 0.3], [math.log(0.9), math.log(0.5), math.log(0.1)])
    assert words[0].probability == pytest.approx(0.7)


def test_signs_go_with_their_word() -> None:
    words = timed([[" He", " said", ",", " (", " oh", ")", "!"]], [0, 1, 2, 3, 3, 4, 5, 6])
    assert [word.text for word in words] == [" He", " said,", " ( oh)!"]
    # Of a sign that nothing follows, or nothing precedes, there is a word all the same.
    assert [word.text for word in timed([["?", " ("], ["-"]], [0, 1, 2, 3])] == ["?", " (", "-"]


def test_a_word_lasts_into_the_pause_at_its_sign_but_not_through_it() -> None:
    words = timed([[" one", " two", ",", " three", ".", " four"]], [0.0, 0.3, 0.6, 0.7, 1.0, 3.0, 3.3])
    ends = {word.text: word.end for word in words}
    assert ends[" two,"] == pytest.approx(0.7)  # all of the sign's time
    assert ends[" three."] == pytest.approx(1.3)  # as much longer as a word lasts: the pause goes on to 3.0


def test_a_word_after_a_pause_does_not_begin_in_it() -> None:
    """The pause before a sentence, or a segment, falls to its first word."""
    words = timed([[" one", " two", "."], [" four", " five", " six"]], [0.0, 0.3, 0.6, 0.9, 3.9, 4.2, 4.5])
    starts = {word.text: word.start for word in words}
    assert starts[" four"] == pytest.approx(3.3)
    assert starts[" five"] == pytest.approx(3.9)
    # Inside of a sentence a long word is long.
    words = timed([[" one", " two", " four", " five"]], [0.0, 0.3, 0.6, 3.9, 4.2])
    assert words[2].start == pytest.approx(0.6)


def test_words_stay_within_their_segment() -> None:
    words = [Word(0.5, 1.0, " a", 1.0), Word(1.0, 1.23456, " b", 1.0), Word(1.5, 2.5, " c", 1.0), Word(3, 4, " d", 1.0)]
    assert [(word.start, word.end) for word in within(words, 0.8, 2.0)] == [
        (0.8, 1.0),
        (1.0, 1.235),
        (1.5, 2.0),
        (2.0, 2.0),
    ]


def test_nothing_said_has_no_words() -> None:
    assert timed([], [0.0]) == []
    assert timed([[], [" a"]], [0.0, 1.0])[0].text == " a"


@pytest.mark.real
@pytest.mark.parametrize(
    ("language", "said", "wanted"),
    [
        ("en", " I don't know, Mr. O'Brien", [" I", " don't", " know", ",", " Mr", ".", " O'Brien"]),
        ("de", " Ärger über Grüße.", [" Ärger", " über", " Grüße", "."]),
        ("ko", " 오늘은 날씨가", [" 오늘은", " 날씨가"]),
        ("zh", "你好,世界龘靐", ["你好", ",", "世界", "龘", "靐"]),  # the last two are of three tokens each
    ],
)
def test_real_tokens(whisper_base: Path, language: str, said: str, wanted: list[str]) -> None:
    vocabulary = Vocabulary.read(whisper_base / "tokenizer.json")
    ids = vocabulary.tokenizer.encode(said, add_special_tokens=False).ids
    assert [text for text, _ in split(ids, vocabulary.text, language)] == wanted
