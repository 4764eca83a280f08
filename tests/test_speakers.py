"""Names for channels, and turns."""

from __future__ import annotations

import pytest

from mlxbatch.speakers import Turn, labelled, turns
from mlxbatch.types import Channels, Segment, Transcript

NAMES = ("agent", "customer")


def call(*channels: int | None, heard: tuple[int | None, ...] = (0, 1)) -> Transcript:
    segments = tuple(Segment(n, n + 1, f"s{n}", channel=channel) for n, channel in enumerate(channels))
    return Transcript(segments, "en", 9.0, channels=heard)


def names(transcript: Transcript, given: tuple[str, ...], channels: Channels = "split") -> list[str | None]:
    return [segment.speaker for segment in labelled(transcript, given, channels).segments]


def test_channels_have_their_names_and_else_their_numbers() -> None:
    assert names(call(0, 1, 0), NAMES) == ["agent", "customer", "agent"]
    assert names(call(0, 1), ()) == ["channel 0", "channel 1"]
    assert names(call(0, 2, 1, heard=(0, 1, 2)), NAMES) == ["agent", "channel 2", "customer"]


def test_where_one_side_says_nothing_the_other_keeps_its_name() -> None:
    assert names(call(1, 1), NAMES) == ["customer", "customer"]


@pytest.mark.parametrize("given", [(), NAMES])
def test_who_cannot_be_told_apart_has_no_name(given: tuple[str, ...]) -> None:
    assert names(call(None, heard=(None,)), given, "mix") == [None]
    assert names(call(0, 0, heard=(0,)), given, "split") == [None, None]


def test_a_channel_by_its_number_has_the_name_that_was_given() -> None:
    one = call(1, heard=(1,))
    assert names(one, NAMES, 1) == ["customer"]
    assert names(one, (), 1) == names(one, ("agent",), 1) == [None]


def test_the_rest_of_a_transcript_is_what_it_was() -> None:
    made = labelled(call(0), NAMES, "split")
    assert (made.language, made.seconds, made.channels, made.segments[0].text) == ("en", 9.0, (0, 1), "s0")


def test_turns() -> None:
    segments = labelled(call(0, 0, 1, 0), NAMES, "split").segments
    assert turns(segments) == [
        Turn("agent", segments[:2]),
        Turn("customer", segments[2:3]),
        Turn("agent", segments[3:]),
    ]
    assert turns(()) == []
