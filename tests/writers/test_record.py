"""JSON: the schema, and what a strict reader makes of it."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlxbatch.types import Item, Segment, Transcript, Word
from mlxbatch.writers import render_json


def strict(text: str) -> dict[str, object]:
    def refuse(constant: str) -> object:
        raise AssertionError(f"{constant} is no JSON")

    loaded = json.loads(text.encode("utf-8"), parse_constant=refuse)
    assert isinstance(loaded, dict)
    return loaded


def test_the_whole_schema() -> None:
    word = Word(0.1234, 0.5, " Olá", 0.9)
    segment = Segment(0.1234, 1.5, " Olá.", (word,), "A", 1, -0.25, 0.01, 1.2, 0.2)
    transcript = Transcript((segment,), "pt", 1.5, ("truncated: …",), truncated=True, model="base")
    assert strict(render_json(transcript, Item("id", Path("/x/olá.wav"), Path("olá")))) == {
        "schema": 1,
        "source": "olá.wav",
        "model": "base",
        "language": "pt",
        "duration": 1.5,
        "truncated": True,
        "warnings": ["truncated: …"],
        "text": "Olá.",
        "segments": [
            {
                "start": 0.123,
                "end": 1.5,
                "text": "Olá.",
                "words": [{"start": 0.123, "end": 0.5, "text": " Olá", "probability": 0.9}],
                "speaker": "A",
                "channel": 1,
                "avg_logprob": -0.25,
                "no_speech_prob": 0.01,
                "compression_ratio": 1.2,
                "temperature": 0.2,
            }
        ],
    }


def test_every_field_of_a_segment_is_there() -> None:
    record = strict(render_json(Transcript((Segment(0, 1, "a"),), None, 1.0)))
    (segment,) = record["segments"]  # type: ignore[misc]
    assert list(segment) == [field.name for field in dataclasses.fields(Segment)]
    assert record["source"] is None


def test_text_stays_readable() -> None:
    assert "žluťoučký" in render_json(Transcript((Segment(0, 1, "žluťoučký"),), "cs", 1.0))


def test_nan_is_null() -> None:
    segment = Segment(0, math.inf, "a", avg_logprob=math.nan)
    (written,) = strict(render_json(Transcript((segment,), None, math.nan)))["segments"]  # type: ignore[misc]
    assert (written["end"], written["avg_logprob"]) == (None, None)


def test_numbers_of_an_engine_are_numbers() -> None:
    segment = Segment(np.float32(0.5), np.float64(1), "a", channel=np.int64(1), avg_logprob=np.float32(-0.5))  # type: ignore[arg-type]
    (written,) = strict(render_json(Transcript((segment,), None, 1.0)))["segments"]  # type: ignore[misc]
    assert (written["start"], written["end"], written["channel"], written["avg_logprob"]) == (0.5, 1.0, 1, -0.5)


def test_a_name_that_is_no_utf8_is_escaped() -> None:
    source = Path(os.fsdecode(b"caf\xe9.wav"))
    assert strict(render_json(Transcript((), None, 0.0), Item("id", source, Path("x"))))["source"] == "caf\\xe9.wav"


@given(st.lists(st.tuples(st.floats(), st.floats(), st.text(st.characters()))))
def test_any_transcript_is_valid_json_and_keeps_times_and_texts(rows: list[tuple[float, float, str]]) -> None:
    segments = tuple(Segment(start, end, text, avg_logprob=start) for start, end, text in rows)
    written = strict(render_json(Transcript(segments, "en", 1.0)))["segments"]
    for segment, record in zip(segments, written, strict=True):  # type: ignore[call-overload]
        assert record["text"] == re.sub("[\ud800-\udfff]", "\ufffd", segment.text.strip())
        if math.isfinite(segment.start):
            assert abs(record["start"] - segment.start) <= max(0.0005, abs(segment.start) * 1e-12)
        else:
            assert record["start"] is None
