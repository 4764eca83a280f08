"""Transcripts that hold everything a format may stumble over, and any others."""

from __future__ import annotations

import math
import os
from pathlib import Path

from hypothesis import strategies as st

from mlxbatch.types import Item, Segment, Transcript, Word

ITEM = Item("id", Path("/in/sub/a call.wav"), Path("sub/a call"))
UNREADABLE = Item("id", Path(os.fsdecode(b"/in/caf\xe9\n.wav")), Path(os.fsdecode(b"caf\xe9\n")))

TEXTS = (
    "plain",
    "",
    "  \t ",
    'she said "yes", then\nleft\tat once\r\n',
    "=HYPERLINK(1)",
    "-- no",
    "+1 234",
    "@sum",
    "'quoted'",
    "next\x85line\u2028and\u2029paragraph",
    "nul\x00 escape\x1b half\ud800 ",
    "žluťoučký 客観的 سلام",
    ";,|",
)


def odd() -> Transcript:
    """A segment of each odd text, on two channels, some of them named."""
    speakers = ("agent", None, "the customer", "=cmd\t|\n", "")
    segments = tuple(
        Segment(
            start=number + 0.1234,
            end=number + 0.9,
            text=text,
            words=(Word(number + 0.2, number + 0.3, f" {text}", 0.5),) if number % 2 else (),
            speaker=speakers[number % len(speakers)],
            channel=(0, 1, None)[number % 3],
            avg_logprob=float("nan") if number == 3 else -0.25,
        )
        for number, text in enumerate(TEXTS)
    )
    return Transcript(segments, "de", 20.0, ("half \ud800",), truncated=True, model="whisper-base")


_NUMBERS = st.floats(-1e6, 1e6) | st.sampled_from([math.nan, math.inf, -math.inf]) | st.integers(0, 100)
_SEGMENTS = st.builds(
    Segment,
    start=_NUMBERS,
    end=_NUMBERS,
    text=st.text(st.characters()),
    speaker=st.none() | st.text(st.characters()),
    channel=st.none() | st.integers(0, 7),
    avg_logprob=_NUMBERS,
)
ANY = st.builds(Transcript, st.lists(_SEGMENTS, max_size=5).map(tuple), st.none() | st.just("de"), _NUMBERS)
