"""SubRip and WebVTT, as parsers that are not ours read them."""

from __future__ import annotations

import html
import io
import itertools
import math
from dataclasses import replace

import pysubs2
import pytest
import webvtt
from hypothesis import given
from hypothesis import strategies as st

from mlxbatch.types import Segment, Transcript, Word
from mlxbatch.writers import LineRules, render_srt, render_vtt
from mlxbatch.writers.plain import one_line
from mlxbatch.writers.subtitles import Cue, cues

from .odd import ANY


def transcript(*segments: tuple[float, float, str]) -> Transcript:
    return Transcript(tuple(Segment(*segment) for segment in segments), "en", 60.0)


def srt(made: Transcript) -> list[tuple[int, int, str]]:
    events = pysubs2.SSAFile.from_string(render_srt(made), format_="srt", keep_html_tags=True)
    return [(event.start, event.end, event.text) for event in events]


def vtt(made: Transcript) -> list[tuple[int, int, str]]:
    captions = webvtt.from_string(render_vtt(made))
    return [
        (milliseconds(caption.start), milliseconds(caption.end), html.unescape(caption.text)) for caption in captions
    ]


def milliseconds(clock: str) -> int:
    hours, minutes, seconds = clock.split(":")
    return round(((int(hours) * 60 + int(minutes)) * 60 + float(seconds)) * 1000)


TWO = transcript((0.0, 1.5, " Hello there."), (1.5, 3.25, "Bye."))


def test_subrip_exactly() -> None:
    expected = "1\n00:00:00,000 --> 00:00:01,500\nHello there.\n\n2\n00:00:01,500 --> 00:00:03,250\nBye.\n\n"
    assert render_srt(TWO) == expected


def test_webvtt_exactly() -> None:
    expected = "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHello there.\n\n00:00:01.500 --> 00:00:03.250\nBye.\n\n"
    assert render_vtt(TWO) == expected


def test_nothing_said() -> None:
    assert render_srt(transcript()) == ""
    assert render_vtt(transcript()) == "WEBVTT\n\n"
    assert vtt(transcript()) == []


@pytest.mark.parametrize(
    ("seconds", "clock"),
    [
        (59.9994, "00:00:59,999"),
        (59.9996, "00:01:00,000"),
        (3599.9999, "01:00:00,000"),
        (3600.0, "01:00:00,000"),
        (86399.9999, "24:00:00,000"),
        (360000.0, "100:00:00,000"),
    ],
)
def test_rounding_never_prints_60(seconds: float, clock: str) -> None:
    assert render_srt(transcript((seconds, seconds + 1, "a"))).splitlines()[1].startswith(f"{clock} --> ")


def test_blank_segments_are_left_out() -> None:
    made = transcript((0, 1, " "), (1, 2, "a"), (2, 3, "\n"))
    assert srt(made) == vtt(made) == [(1000, 2000, "a")]


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ([(0, 2, "a"), (1, 3, "b")], [(0, 1000), (1000, 3000)]),  # overlap: cut at the next start
        ([(5, 6, "a"), (1, 2, "b")], [(1000, 2000), (5000, 6000)]),  # out of order
        ([(1, 1, "a")], [(1000, 1001)]),  # no length
        ([(2, 1, "a")], [(2000, 2001)]),  # backwards
        ([(1, 2, "a"), (1, 2, "b"), (1, 2, "c")], [(1000, 1001), (1001, 1002), (1002, 2000)]),  # at once
        ([(-1, 0.5, "a")], [(0, 500)]),
        ([(math.nan, math.inf, "a"), (1, 2, "b")], [(0, 1), (1000, 2000)]),
    ],
)
def test_cues_are_in_order_and_never_overlap(
    segments: list[tuple[float, float, str]], expected: list[tuple[int, int]]
) -> None:
    assert [(cue.start, cue.end) for cue in cues(transcript(*segments))] == expected


@pytest.mark.parametrize(
    "text", ["a & b", "1 < 2 > 0", "<i>x</i>", "a --> b", "&amp;", "<b", "{\\an8}x", "42", "WEBVTT"]
)
def test_webvtt_escapes_what_its_specification_demands(text: str) -> None:
    made = transcript((0, 1, text), (1, 2, "next"))
    body = render_vtt(made).split("\n")[3]
    assert not set("<>") & set(body)
    assert [row[2] for row in vtt(made)] == [text, "next"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a & b", "a & b"),
        ("1 < 2 > 0", "1 < 2 > 0"),
        ("I <3 you", "I <3 you"),
        ("<i>x</i>", "‹i>x‹/i>"),
        ("a --> b", "a -> b"),
        ("{\\an8}x", "(\\an8}x"),
        ("42", "42"),
    ],
)
def test_subrip_keeps_markup_out_of_the_text(text: str, shown: str) -> None:
    made = transcript((0, 1, text), (1, 2, "next"))
    assert [row[2] for row in srt(made)] == [shown, "next"]
    # The same with markup interpreted, as players do.
    assert [event.text for event in pysubs2.SSAFile.from_string(render_srt(made), format_="srt")] == [shown, "next"]


def test_a_speaker_is_named() -> None:
    made = Transcript((Segment(0, 1, "Hi.", speaker="Ann & Bo"),), "en", 1.0)
    assert render_srt(made).splitlines()[2] == "Ann & Bo: Hi."
    assert render_vtt(made).splitlines()[3] == "<v Ann &amp; Bo>Hi."
    (caption,) = webvtt.from_string(render_vtt(made))
    assert caption.text == "Hi."


def test_two_speakers_may_talk_at_once() -> None:
    segments = (
        Segment(0, 4, "Your account", speaker="agent"),
        Segment(1, 2, "Yes.", speaker="customer"),
        Segment(3, 6, "has been closed.", speaker="agent"),
        Segment(3, 5, "What?", speaker="customer"),
    )
    made = Transcript(segments, "en", 6.0)
    expected = [(0, 3000, "agent"), (1000, 2000, "customer"), (3000, 6000, "agent"), (3001, 5000, "customer")]
    assert [(cue.start, cue.end, cue.speaker) for cue in cues(made)] == expected
    assert [row[:2] for row in srt(made)] == [row[:2] for row in vtt(made)] == [row[:2] for row in expected]


# Below 100 hours: pysubs2 reads two digits of hours.
times = st.floats(0, 359_000)
texts = st.text(st.characters(), max_size=30)
segments = st.lists(st.tuples(times, times, texts), max_size=12)


@given(segments)
def test_cues_of_any_transcript(rows: list[tuple[float, float, str]]) -> None:
    made = cues(transcript(*rows))
    assert all(cue.end > cue.start for cue in made)
    assert all(before.end <= after.start for before, after in itertools.pairwise(made))
    assert sorted(cue.text for cue in made) == sorted(text for row in rows if (text := one_line(row[2])))


@given(segments)
def test_times_and_texts_come_back_from_webvtt(rows: list[tuple[float, float, str]]) -> None:
    made = transcript(*rows)
    assert vtt(made) == [(cue.start, cue.end, cue.text) for cue in cues(made)]


@given(segments)
def test_times_come_back_from_subrip(rows: list[tuple[float, float, str]]) -> None:
    made = transcript(*rows)
    assert [row[:2] for row in srt(made)] == [(cue.start, cue.end) for cue in cues(made)]


@given(segments)
def test_a_start_is_kept_to_the_millisecond(rows: list[tuple[float, float, str]]) -> None:
    spoken = sorted({round(row[0] * 1000) for row in rows if one_line(row[2])})
    distinct = [(start / 1000, start / 1000 + 1, "a") for start in spoken]
    assert [cue.start for cue in cues(transcript(*distinct))] == spoken


def test_the_files_are_text_that_any_reader_opens() -> None:
    made = transcript((0, 1, "\udce9 naïve"))
    for text in (render_srt(made), render_vtt(made)):
        assert io.BytesIO(text.encode("utf-8")).read().decode("utf-8") == text


# ---- lines


def spoken(text: str, start: float, each: float = 0.5, **about: str) -> Segment:
    """A segment whose words take so many seconds each, one after the other."""
    words = [Word(start + n * each, start + (n + 1) * each, f" {word}", 0.9) for n, word in enumerate(text.split())]
    return Segment(start - 0.1, words[-1].end + 0.1, text, tuple(words), **about)


CALL = Transcript(
    (
        spoken("Good morning. How can I help you with your <new> contract?", 1.0, speaker="agent"),
        spoken("It's R&D's, not mine.", 7.0, speaker="customer"),
        Segment(10.0, 14.0, "This segment has no words of its own.", speaker="agent"),
    ),
    "en",
    20.0,
)


def test_subrip_in_lines_exactly() -> None:
    assert render_srt(CALL, None, LineRules(26, 2)).split("\n\n") == [
        "1\n00:00:01,000 --> 00:00:02,000\nagent: Good morning.",
        "2\n00:00:02,000 --> 00:00:06,500\nagent: How can I help you\nwith your ‹new> contract?",
        "3\n00:00:07,000 --> 00:00:09,000\ncustomer: It's R&D's,\nnot mine.",
        "4\n00:00:10,000 --> 00:00:14,000\nagent: This segment has\nno words of its own.",
        "",
    ]


def test_webvtt_in_lines_exactly() -> None:
    """Names take no room in its lines: players do not show them."""
    assert render_vtt(CALL, None, LineRules(26, 2)).split("\n\n") == [
        "WEBVTT",
        "00:00:01.000 --> 00:00:02.000\n<v agent>Good morning.",
        "00:00:02.000 --> 00:00:06.500\n<v agent>How can I help you with\nyour &lt;new&gt; contract?",
        "00:00:07.000 --> 00:00:09.000\n<v customer>It's R&amp;D's, not mine.",
        "00:00:10.000 --> 00:00:14.000\n<v agent>This segment has no\nwords of its own.",
        "",
    ]


def test_a_width_alone_wraps_segments_and_leaves_their_times() -> None:
    assert render_srt(CALL, None, LineRules(26)).split("\n\n")[0] == (
        "1\n00:00:00,900 --> 00:00:06,600\nagent: Good morning.\nHow can I help you with\nyour ‹new> contract?"
    )


def test_chinese_and_japanese_exactly() -> None:
    made = Transcript(
        (
            Segment(0.0, 10.0, "今天天气很好，我们一起去公园散步吧。昨天下了一整天的雨。"),
            Segment(10.0, 14.0, "「ニャーニャー」泣いていた。"),
        ),
        "zh",
        14.0,
    )
    assert render_srt(made, None, LineRules(22, 2)).split("\n\n") == [
        "1\n00:00:00,000 --> 00:00:06,429\n今天天气很好，\n我们一起去公园散步吧。",
        "2\n00:00:06,429 --> 00:00:10,000\n昨天下了一整天的雨。",
        "3\n00:00:10,000 --> 00:00:14,000\n「ニャーニャー」\n泣いていた。",
        "",
    ]


def test_a_pause_exactly() -> None:
    words = (Word(1.0, 1.5, " Well,", 0.9), Word(3.0, 3.5, " yes.", 0.9))
    made = Transcript((Segment(0.5, 4.0, "Well, yes.", words),), "en", 4.0)
    expected = "1\n00:00:01,000 --> 00:00:01,500\nWell,\n\n2\n00:00:03,000 --> 00:00:03,500\nyes.\n\n"
    assert render_srt(made, None, LineRules(max_gap=1.0)) == expected
    assert len(cues(made, LineRules(max_gap=1.5))) == 1


# ---- words that are marked


def test_each_word_is_marked_while_it_is_spoken() -> None:
    """And none in a pause; names and markup in the text stay text."""
    words = (Word(1.0, 1.5, " Is", 0.9), Word(1.5, 2.0, " <b>", 0.9), Word(2.5, 3.0, " R&D?", 0.9))
    made = Transcript((Segment(0.5, 4.0, "Is <b> R&D?", words, speaker="A & B"),), "en", 4.0)
    assert render_vtt(made, None, LineRules(8, highlight=True)).split("\n\n") == [
        "WEBVTT",
        "00:00:01.000 --> 00:00:01.500\n<v A &amp; B><u>Is</u> &lt;b&gt;\nR&amp;D?",
        "00:00:01.500 --> 00:00:02.000\n<v A &amp; B>Is <u>&lt;b&gt;</u>\nR&amp;D?",
        "00:00:02.000 --> 00:00:02.500\n<v A &amp; B>Is &lt;b&gt;\nR&amp;D?",
        "00:00:02.500 --> 00:00:03.000\n<v A &amp; B>Is &lt;b&gt;\n<u>R&amp;D?</u>",
        "",
    ]
    assert render_srt(made, None, LineRules(highlight=True)).split("\n\n") == [
        "1\n00:00:01,000 --> 00:00:01,500\nA & B: <u>Is</u> ‹b> R&D?",
        "2\n00:00:01,500 --> 00:00:02,000\nA & B: Is <u>‹b></u> R&D?",
        "3\n00:00:02,000 --> 00:00:02,500\nA & B: Is ‹b> R&D?",
        "4\n00:00:02,500 --> 00:00:03,000\nA & B: Is ‹b> <u>R&D?</u>",
        "",
    ]


def test_what_others_read_is_underlined() -> None:
    made = Transcript((spoken("one two", 0.1),), "en", 2.0)
    read = pysubs2.SSAFile.from_string(render_srt(made, None, LineRules(highlight=True)), format_="srt")
    assert [event.text for event in read] == [r"{\u1}one{\u0} two", r"one {\u1}two{\u0}"]
    captions = webvtt.from_string(render_vtt(made, None, LineRules(highlight=True)))
    assert [(caption.raw_text, caption.text) for caption in captions] == [
        ("<u>one</u> two", "one two"),
        ("one <u>two</u>", "one two"),
    ]


def test_nothing_is_marked_where_the_times_of_words_are_not_known() -> None:
    made = transcript((0, 2, "one two"))
    assert render_vtt(made, None, LineRules(highlight=True)) == render_vtt(made)


def test_two_who_talk_at_once_are_both_marked_in_the_order_of_time() -> None:
    made = Transcript((spoken("a b", 1.0, speaker="x"), spoken("c d", 1.2, speaker="y")), "en", 3.0)
    found = [(one.start, one.speaker) for one in cues(made, LineRules(highlight=True))]
    assert found == [(1000, "x"), (1200, "y"), (1500, "x"), (1700, "y")]


# ---- any transcript under any rules


RULES = st.builds(
    LineRules,
    st.none() | st.integers(8, 40),
    st.none() | st.integers(1, 3),
    st.none() | st.floats(0.1, 2),
    st.booleans(),
)


def never_twice_at_once(made: list[Cue]) -> bool:
    by_speaker: dict[str | None, list[Cue]] = {}
    for cue in made:
        by_speaker.setdefault(cue.speaker, []).append(cue)
    return all(before.end <= after.start for some in by_speaker.values() for before, after in itertools.pairwise(some))


@given(ANY, RULES)
def test_times_are_in_order_under_any_rules(made: Transcript, rules: LineRules) -> None:
    for labels in (False, True):
        found = cues(made, rules, labels=labels)
        assert all(cue.start < cue.end for cue in found)
        assert all(before.start <= after.start for before, after in itertools.pairwise(found))
        assert never_twice_at_once(found)
        assert all(line.strip() for cue in found for line in cue.text.split("\n"))


SAID = st.lists(st.text("abc.,", min_size=1, max_size=9), min_size=1, max_size=12)


@given(st.lists(st.tuples(SAID, st.floats(0, 3)), max_size=4), RULES, st.booleans())
def test_no_word_is_lost_doubled_or_moved(turns: list[tuple[list[str], float]], rules: LineRules, known: bool) -> None:
    segments, now = [], 0.0
    for said, pause in turns:
        one = spoken(" ".join(said), now + pause)
        segments.append(one if known else replace(one, words=()))
        now = one.words[-1].end
    made = Transcript(tuple(segments), "en", now)
    plain = cues(made, replace(rules, highlight=False))
    assert " ".join(cue.text for cue in plain).split() == [word for said, _ in turns for word in said]
    found = cues(made, rules)
    assert [text for text, _ in itertools.groupby(cue.text for cue in found)] == [
        text for text, _ in itertools.groupby(cue.text for cue in plain)
    ]
    if rules.highlight and known:
        marked = [cue.text[cue.marked.begin : cue.marked.end] for cue in found if cue.marked]
        assert marked == [word for said, _ in turns for word in said]


@given(ANY)
def test_without_rules_nothing_is_another(made: Transcript) -> None:
    assert render_srt(made, None, LineRules()) == render_srt(made)
    assert [cue.marked for cue in cues(made)] == [None] * len(cues(made))
