"""SubRip and WebVTT, as parsers that are not ours read them."""

from __future__ import annotations

import html
import io
import itertools
import math

import pysubs2
import pytest
import webvtt
from hypothesis import given
from hypothesis import strategies as st

from mlxbatch.types import Segment, Transcript
from mlxbatch.writers import render_srt, render_vtt
from mlxbatch.writers.plain import one_line
from mlxbatch.writers.subtitles import cues


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
