"""tsv and csv, read by the standard library's csv module."""

from __future__ import annotations

import csv
import io

from hypothesis import given

from mlxbatch.types import Segment, Transcript
from mlxbatch.writers import render_csv, render_tsv
from mlxbatch.writers.plain import one_line

from .odd import ANY, ITEM, TEXTS, UNREADABLE, odd

SPOKEN = [one_line(text) for text in TEXTS if one_line(text)]


def read_tsv(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), delimiter="\t", quoting=csv.QUOTE_NONE))


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def test_tsv_is_whisper_s() -> None:
    segments = (Segment(0.0, 2.5, " Hello,\tyou."), Segment(2.5, 61.0006, "And you?", speaker="agent", channel=1))
    assert (
        render_tsv(Transcript(segments, "en", 61.0))
        == "start\tend\ttext\n0\t2500\tHello, you.\n2500\t61001\tAnd you?\n"
    )


def test_an_empty_transcript_is_a_header() -> None:
    assert render_tsv(Transcript((), None, 1.0)) == "start\tend\ttext\n"
    assert render_csv(Transcript((), None, 1.0)) == "file,start,end,speaker,channel,text\r\n"


def test_csv_as_it_stands() -> None:
    segments = (
        Segment(0.0, 2.5, ' "Hello", he said.', speaker="agent", channel=0),
        Segment(2.5, 3.0, "-- no"),
        Segment(3.0, 4.0, "Yes."),
    )
    assert render_csv(Transcript(segments, "en", 4.0), ITEM) == (
        "file,start,end,speaker,channel,text\r\n"
        'a call.wav,0.000,2.500,agent,0,"""Hello"", he said."\r\n'
        "a call.wav,2.500,3.000,,,'-- no\r\n"
        "a call.wav,3.000,4.000,,,Yes.\r\n"
    )


def test_odd_texts_come_back() -> None:
    rows = read_csv(render_csv(odd(), UNREADABLE))
    assert [row["text"].removeprefix("'") for row in rows] == [text.removeprefix("'") for text in SPOKEN]
    assert {row["file"] for row in rows} == {"caf\\xe9\\n.wav"}
    assert [row[2] for row in read_tsv(render_tsv(odd()))[1:]] == SPOKEN


def test_no_cell_is_a_formula() -> None:
    segments = tuple(Segment(0.0, 1.0, text, speaker=text) for text in ("=1+1", "+1", "-1", "@A1", "\t=1", "＝", "a=1"))
    rows = read_csv(render_csv(Transcript(segments, "en", 1.0), ITEM))
    assert [row["text"] for row in rows] == ["'=1+1", "'+1", "'-1", "'@A1", "'=1", "＝", "a=1"]
    assert [row["speaker"] for row in rows] == [row["text"] for row in rows]


@given(ANY)
def test_any_transcript_is_a_table(transcript: Transcript) -> None:
    texts = [text for segment in transcript.segments if (text := one_line(segment.text))]
    rows = read_csv(render_csv(transcript, ITEM))
    assert [row["text"].removeprefix("'") for row in rows] == [text.removeprefix("'") for text in texts]
    for table in (
        read_tsv(render_tsv(transcript)),
        list(csv.reader(io.StringIO(render_csv(transcript, ITEM), newline=""))),
    ):
        assert {len(row) for row in table} == {len(table[0])}
    assert [row[2] for row in read_tsv(render_tsv(transcript))[1:]] == texts
    (render_tsv(transcript) + render_csv(transcript, ITEM)).encode("utf-8")
