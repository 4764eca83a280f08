"""A segment's text in pieces, with times."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from mlxbatch.types import Segment, Word
from mlxbatch.writers.pieces import milliseconds, timed
from mlxbatch.writers.plain import one_line


def pieces(segment: Segment, width: int | None = None) -> list[tuple[str, int, int]]:
    said = timed(segment, one_line(segment.text), width)
    return [(said.text[one.begin : one.end], one.start, one.stop) for one in said.pieces]


def words(*said: tuple[str, float, float]) -> tuple[Word, ...]:
    return tuple(Word(start, stop, text, 0.9) for text, start, stop in said)


def test_words_give_the_times_with_and_without_their_blanks() -> None:
    for blank in (" ", ""):
        said = words((f"{blank}Good", 1.0, 1.25), (f"{blank}morning.", 1.5, 2.0))
        found = timed(Segment(0.9, 2.1, " Good morning.", said), "Good morning.", None)
        assert found.known
        assert pieces(Segment(0.9, 2.1, " Good  morning.", said)) == [("Good", 1000, 1250), ("morning.", 1500, 2000)]


def test_words_without_a_blank_between_are_one_piece() -> None:
    said = words((" well", 0.0, 0.5), ("-known", 0.6, 1.0), (" man", 1.0, 1.5))
    assert pieces(Segment(0, 2, "well-known man", said)) == [("well-known", 0, 1000), ("man", 1000, 1500)]


def test_words_of_a_script_without_blanks_stay_whole() -> None:
    said = words(("今天", 0.0, 1.0), ("天气", 1.0, 2.0), ("好", 2.0, 2.5), ("。", 2.5, 3.0))
    assert pieces(Segment(0, 3, "今天天气好。", said)) == [
        ("今天", 0, 1000),
        ("天气", 1000, 2000),
        ("好。", 2000, 3000),
    ]


def test_unless_they_are_wider_than_a_line() -> None:
    said = words(("今天天气", 0.0, 2.0), ("好", 2.0, 2.5))
    assert pieces(Segment(0, 3, "今天天气好", said), 7) == [
        ("今", 0, 500),
        ("天", 500, 1000),
        ("天", 1000, 1500),
        ("气", 1500, 2000),
        ("好", 2000, 2500),
    ]


def test_without_words_the_text_s_length_gives_the_times() -> None:
    found = timed(Segment(10.0, 20.0, "abcd fghi"), "abcd fghi", None)
    assert not found.known
    assert pieces(Segment(10.0, 19.0, "abcd fghi")) == [("abcd", 10_000, 15_000), ("fghi", 15_000, 19_000)]


def test_a_text_without_words_is_over_when_its_speaker_goes_on() -> None:
    for until, stop in ((15_000.0, 15_000), (30_000.0, 19_000), (5_000.0, 10_000)):
        found = timed(Segment(10.0, 19.0, "abcd fghi"), "abcd fghi", None, until)
        assert (found.pieces[0].start, found.pieces[-1].stop) == (10_000, stop)


def test_words_that_are_not_the_text_s_are_not_believed() -> None:
    for said in (
        words((" abc", 0, 1)),
        words((" abcd", 0, 1), (" fg", 1, 2)),
        words((" x", 0, 1), (" abcd fghi", 1, 2)),
    ):
        assert not timed(Segment(10.0, 19.0, "abcd fghi", said), "abcd fghi", None).known


def test_times_never_go_back() -> None:
    said = words((" a", 2.0, 5.0), (" b", 1.0, 0.5), (" c", math.nan, math.inf), (" d", 3.0, 4.0))
    assert pieces(Segment(0, 9, "a b c d", said)) == [
        ("a", 2000, 2000),
        ("b", 2000, 2000),
        ("c", 2000, 2000),
        ("d", 3000, 4000),
    ]


def test_milliseconds() -> None:
    assert [milliseconds(one) for one in (1.2345, -1.0, math.nan, math.inf)] == [1234, 0, 0, 0]


TIMES = st.floats(-10, 1e5) | st.sampled_from([math.nan, math.inf])
TEXTS = st.text(st.characters() | st.sampled_from("  ab,.天ーก"), max_size=12)


@given(st.lists(st.tuples(TEXTS, TIMES, TIMES), min_size=1, max_size=6), st.booleans(), st.none() | st.integers(8, 20))
def test_pieces_are_the_text_in_order_and_in_time(
    said: list[tuple[str, float, float]], known: bool, width: int | None
) -> None:
    text = " ".join(one[0] for one in said)
    if not one_line(text):
        return
    made = words(*said) if known else ()
    found = timed(Segment(said[0][1], said[-1][2], text, made), one_line(text), width)
    assert found.known == known
    at = 0
    for one in found.pieces:
        assert found.text[at : one.begin] in ("", " ")
        assert one.begin < one.end
        at = one.end
    assert at == len(found.text)
    times = [time for one in found.pieces for time in (one.start, one.stop)]
    assert times == sorted(times)
