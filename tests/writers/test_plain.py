"""Plain text."""

from __future__ import annotations

import pytest

from mlxbatch.types import Segment, Transcript
from mlxbatch.writers import WRITERS, render_txt
from mlxbatch.writers.plain import one_line


def test_one_segment_a_line_and_blank_ones_left_out() -> None:
    segments = (Segment(0, 1, " Hello\nthere."), Segment(1, 2, "  "), Segment(2, 3, " Bye."))
    assert render_txt(Transcript(segments, "en", 3.0)) == "Hello there.\nBye.\n"


def test_where_speakers_are_known_each_turn_is_a_line() -> None:
    segments = (
        Segment(0, 1, "Hello.", speaker="agent"),
        Segment(1, 2, " ", speaker="customer"),
        Segment(2, 3, "Who is it?", speaker="agent"),
        Segment(3, 4, "Me.", speaker="a\ncustomer"),
        Segment(4, 5, "And music."),
        Segment(5, 6, "And noise."),
    )
    lines = render_txt(Transcript(segments, "en", 6.0)).splitlines()
    assert lines == ["agent: Hello. Who is it?", "a customer: Me.", "And music.", "And noise."]


def test_an_empty_transcript_is_an_empty_file() -> None:
    assert render_txt(Transcript((), None, 3.0)) == ""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\x00b\x1b[0m", "ab[0m"),
        ("a\u2028b\x85c\x0bd", "a b c d"),
        ("\udce9", "\N{REPLACEMENT CHARACTER}"),
        ("می\u200cخواهم", "می\u200cخواهم"),
    ],
)
def test_a_line_is_one_line_everywhere(text: str, line: str) -> None:
    assert one_line(text) == line


def test_the_formats() -> None:
    assert list(WRITERS) == ["txt", "srt", "vtt", "tsv", "csv", "json", "jsonl", "rttm"]
    assert all(isinstance(render(Transcript((), None, 0.0), None), str) for render in WRITERS.values())
