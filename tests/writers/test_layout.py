"""Pieces as cues of lines: within the rules, whole, and as good as the best of all ways."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxbatch.line_rules import LineRules
from mlxbatch.types import Segment, Word
from mlxbatch.writers.layout import cues_of_lines
from mlxbatch.writers.line_breaks import columns
from mlxbatch.writers.pieces import Timed, timed
from mlxbatch.writers.plain import one_line


def said(text: str, gaps: dict[int, float] | None = None, width: int | None = None) -> Timed:
    """A word each second, half of which it takes; `gaps` are further seconds before some of them."""
    words, now = [], 0.0
    for number, word in enumerate(text.split()):
        now += (gaps or {}).get(number, 0.0)
        words.append(Word(now, now + 0.5, f" {word}", 0.9))
        now += 1.0
    return timed(Segment(0.0, now, text, tuple(words)), one_line(text), width)


def cues(text: str, rules: LineRules, label: int = 0, gaps: dict[int, float] | None = None) -> list[list[str]]:
    spoken = said(text, gaps, rules.width)
    return [
        [spoken.text[line[0].begin : line[-1].end] for line in lines] for lines in cues_of_lines(spoken, rules, label)
    ]


def test_lines_are_of_about_equal_length() -> None:
    assert cues("aaaa bbbb cccc dddd e", LineRules(20)) == [["aaaa bbbb", "cccc dddd e"]]


def test_a_line_ends_behind_a_clause_where_that_is_no_worse() -> None:
    assert cues("aaaa bbb, cccc dddd eee", LineRules(15)) == [["aaaa bbb,", "cccc dddd eee"]]


def test_a_cue_ends_with_its_sentence() -> None:
    """Greedily it would be "One two. Three four", "five six. Seven eight", and so on."""
    text = "One two. Three four five six. Seven eight nine ten."
    assert cues(text, LineRules(21, 1)) == [["One two."], ["Three four five six."], ["Seven eight nine ten."]]
    assert cues(text, LineRules(21, 3)) == [["One two.", "Three four five six.", "Seven eight nine ten."]]


def test_what_fits_is_one_cue_whatever_its_sentences() -> None:
    assert cues("Yes. No. Perhaps.", LineRules(20, 1)) == [["Yes. No. Perhaps."]]


def test_a_long_sentence_is_divided_at_its_clause() -> None:
    text = "when it rains in the long night, we stay in the house"
    assert cues(text, LineRules(20, 2)) == [["when it rains in", "the long night,"], ["we stay in the house"]]


def test_no_rest_of_a_word_is_left_alone() -> None:
    assert cues("aa bb cc dd ee ff gg hh", LineRules(20, 1)) == [["aa bb cc dd"], ["ee ff gg hh"]]


def test_a_pause_begins_a_cue() -> None:
    rules = LineRules(max_gap=0.8)
    assert cues("a b c d", rules) == [["a b c d"]]  # pauses of 0.5 s
    assert cues("a b c d", rules, gaps={1: 0.3, 3: 0.4}) == [["a b c"], ["d"]]  # of exactly 0.8 s, and of 0.9 s
    assert cues("a b c d", LineRules(max_gap=0.4)) == [["a"], ["b"], ["c"], ["d"]]


def test_without_words_there_are_no_pauses() -> None:
    spoken = timed(Segment(0.0, 100.0, "a b c d"), "a b c d", None)
    assert len(cues_of_lines(spoken, LineRules(max_gap=0.1))) == 1


def test_a_word_longer_than_a_line_is_a_line() -> None:
    assert cues("a incomprehensibilities b", LineRules(8)) == [["a", "incomprehensibilities", "b"]]
    assert cues("a incomprehensibilities b", LineRules(8, 1)) == [["a"], ["incomprehensibilities"], ["b"]]


def test_wide_characters_count_twice() -> None:
    assert cues("客観的客観的", LineRules(8)) == [["客観的", "客観的"]]
    assert cues("客観的客観的", LineRules(12)) == [["客観的客観的"]]


def test_a_speaker_s_name_takes_room_in_each_cue_s_first_line() -> None:
    assert cues("aaa bbb ccc ddd", LineRules(11), label=5) == [["aaa", "bbb ccc ddd"]]
    assert cues("aaa bbb ccc ddd", LineRules(11, 1), label=5) == [["aaa"], ["bbb"], ["ccc"], ["ddd"]]
    assert cues("aaa bbb", LineRules(8, 1), label=9) == [["aaa"], ["bbb"]]  # there is no room at all


WORDS = st.lists(st.text("abW天ーก.,!", min_size=1, max_size=9), min_size=1, max_size=14)
RULES = st.builds(
    LineRules,
    st.none() | st.integers(8, 24),
    st.none() | st.integers(1, 3),
    st.none() | st.floats(0.1, 2),
    st.booleans(),
)


@given(WORDS, RULES, st.integers(0, 12), st.booleans())
def test_any_text_is_whole_and_within_the_rules(words: list[str], rules: LineRules, label: int, known: bool) -> None:
    text = one_line(" ".join(words))
    made = said(text, width=rules.width) if known else timed(Segment(0.0, 9.0, text), text, rules.width)
    found = cues_of_lines(made, rules, label)
    assert [piece for lines in found for line in lines for piece in line] == list(made.pieces)
    for lines in found:
        assert rules.max_line_count is None or len(lines) <= rules.max_line_count
        for number, line in enumerate(lines):
            assert len(line) > 0
            taken = columns(made.text[line[0].begin : line[-1].end]) + (0 if number else label)
            assert rules.width is None or len(line) == 1 or taken <= rules.width


def every_way(count: int) -> list[list[tuple[int, int]]]:
    """All ways to divide things in a row."""
    cuts = [chosen for size in range(count) for chosen in combinations(range(1, count), size)]
    return [list(pairwise((0, *chosen, count))) for chosen in cuts]


@pytest.mark.parametrize("text", ["aa b ccc. dd ee, fff g", "aa. b cc dd. e ffff gg", "aaaa b cc dddd e ff, ggg"])
def test_the_parts_are_the_best_of_all(text: str) -> None:
    words = text.split()
    width = 9

    def cost(first: int, last: int) -> float:
        line = " ".join(words[first:last])
        behind = 0.0 if line.endswith(".") else 1.0 if line.endswith(",") else 3.0
        return 1.0 + (1 - len(line) / width) ** 2 + (behind if last < len(words) else 0.0)

    ways = [way for way in every_way(len(words)) if all(len(" ".join(words[a:b])) <= width for a, b in way)]
    costs = {tuple(" ".join(words[a:b]) for a, b in way): sum(cost(a, b) for a, b in way) for way in ways}
    found = tuple(line for (line,) in cues(text, LineRules(width, 1)))
    assert costs[found] == pytest.approx(min(costs.values()))
