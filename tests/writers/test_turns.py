"""RTTM, read as pyannote and dscore read it: lines split at blanks."""

from __future__ import annotations

import math

from hypothesis import given

from mlxbatch.types import Segment, Transcript
from mlxbatch.writers import render_rttm
from mlxbatch.writers.plain import one_line

from .odd import ANY, ITEM, UNREADABLE, odd


def turns(text: str) -> list[tuple[str, int, float, float, str]]:
    """File, channel, start, length and speaker of each line."""
    found = []
    for line in text.splitlines():
        kind, file, channel, start, length, *rest = line.split()
        assert kind == "SPEAKER"
        assert (rest[0], rest[1], rest[3], rest[4], len(rest)) == ("<NA>", "<NA>", "<NA>", "<NA>", 5)
        found.append((file, int(channel), float(start), float(length), rest[2]))
    return found


def test_lines_as_they_stand() -> None:
    segments = (
        Segment(1.5, 2.75, "Yes?", speaker="customer", channel=1),
        Segment(0.0, 1.25, "Hello.", speaker="the agent", channel=0),
        Segment(3.0, 4.0, "Third.", channel=2),
        Segment(4.0, 5.0, "Mixed."),
    )
    assert render_rttm(Transcript(segments, "en", 5.0), ITEM) == (
        "SPEAKER a_call 1 0.000 1.250 <NA> <NA> the_agent <NA> <NA>\n"
        "SPEAKER a_call 2 1.500 1.250 <NA> <NA> customer <NA> <NA>\n"
        "SPEAKER a_call 3 3.000 1.000 <NA> <NA> channel_2 <NA> <NA>\n"
        "SPEAKER a_call 1 4.000 1.000 <NA> <NA> speaker <NA> <NA>\n"
    )


def test_what_says_nothing_or_takes_no_time_is_no_turn() -> None:
    segments = (
        Segment(0, 1, " \n"),
        Segment(1, 1, "a"),
        Segment(2, 1, "b"),
        Segment(math.nan, 4, "c"),
        Segment(0, math.inf, "d"),
    )
    assert render_rttm(Transcript(segments, "en", 4.0), ITEM) == ""


def test_odd_names_are_one_field() -> None:
    found = turns(render_rttm(odd(), UNREADABLE))
    assert {file for file, *_ in found} == {"caf\\xe9\\n"}
    assert {name for *_, name in found} == {"agent", "channel_0", "channel_1", "speaker", "the_customer", "=cmd_|"}
    assert turns(render_rttm(odd()))[0][0] == "<NA>"


@given(ANY)
def test_any_transcript_is_in_order(transcript: Transcript) -> None:
    found = turns(render_rttm(transcript, ITEM))
    assert [start for _, _, start, _, _ in found] == sorted(start for _, _, start, _, _ in found)
    assert all(length > 0 and start >= 0 and channel >= 1 for _, channel, start, length, _ in found)
    lasting = [s for s in transcript.segments if one_line(s.text) and 0 <= s.start < s.end - 0.001 < math.inf]
    assert len(found) >= len(lasting)
