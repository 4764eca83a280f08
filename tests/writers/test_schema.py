"""The JSON Schemas against what is written: by a validator, and key by key."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator, ValidationError

from mlxbatch.types import Segment, Transcript, Word
from mlxbatch.writers import render_json, render_jsonl
from mlxbatch.writers.plain import one_line
from mlxbatch.writers.schema import schema_text

from .odd import ANY, ITEM, TEXTS, UNREADABLE, odd

TRANSCRIPT, LINE = (json.loads(schema_text(name)) for name in ("transcript", "line"))


def lines(text: str) -> list[dict[str, Any]]:
    """As readers take them that split at whatever Unicode calls the end of a line."""
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("schema", [TRANSCRIPT, LINE], ids=["transcript", "line"])
def test_the_schemas_are_schemas(schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)


def test_the_schema_has_the_record_s_keys_in_order() -> None:
    record = json.loads(render_json(odd(), ITEM))
    segment = TRANSCRIPT["$defs"]["segment"]
    assert list(TRANSCRIPT["properties"]) == TRANSCRIPT["required"] == list(record)
    assert list(segment["properties"]) == segment["required"] == [field.name for field in dataclasses.fields(Segment)]
    word = TRANSCRIPT["$defs"]["word"]
    assert list(word["properties"]) == word["required"] == [field.name for field in dataclasses.fields(Word)]


def test_a_line_is_a_segment_and_whose_it_is() -> None:
    (first, *_) = lines(render_jsonl(odd(), ITEM))
    assert list(LINE["properties"]) == LINE["required"] == list(first)
    assert LINE["properties"] == {
        "source": TRANSCRIPT["properties"]["source"],
        "language": TRANSCRIPT["properties"]["language"],
        **TRANSCRIPT["$defs"]["segment"]["properties"],
    }
    assert LINE["$defs"]["word"] == TRANSCRIPT["$defs"]["word"]


@pytest.mark.parametrize("item", [None, ITEM, UNREADABLE])
def test_odd_transcripts_are_valid(item: Any) -> None:
    Draft202012Validator(TRANSCRIPT).validate(json.loads(render_json(odd(), item)))
    for line in lines(render_jsonl(odd(), item)):
        Draft202012Validator(LINE).validate(line)


@given(ANY)
def test_any_transcript_is_valid(transcript: Transcript) -> None:
    Draft202012Validator(TRANSCRIPT).validate(json.loads(render_json(transcript, ITEM)))
    found = lines(render_jsonl(transcript, ITEM))
    for line in found:
        Draft202012Validator(LINE).validate(line)
    assert len(found) == sum(bool(one_line(segment.text)) for segment in transcript.segments)


@pytest.mark.parametrize(
    "change",
    [{"schema": 2}, {"segments": [{"start": 0}]}, {"duration": "1 s"}, {"truncated": None}, {"warnings": [1]}],
)
def test_what_is_wrong_is_refused(change: dict[str, Any]) -> None:
    record = json.loads(render_json(odd(), ITEM))
    with pytest.raises(ValidationError):
        Draft202012Validator(TRANSCRIPT).validate(record | change)
    for key in record:
        with pytest.raises(ValidationError):
            Draft202012Validator(TRANSCRIPT).validate({k: v for k, v in record.items() if k != key})


def test_a_line_as_it_stands() -> None:
    one = Transcript((Segment(0.5, 1.25, " Grüß Gott.", speaker="agent", channel=0, avg_logprob=-0.5),), "de", 2.0)
    assert render_jsonl(one, ITEM) == (
        '{"source": "a call.wav", "language": "de", "start": 0.5, "end": 1.25, "text": "Grüß Gott.", "words": [], '
        '"speaker": "agent", "channel": 0, "avg_logprob": -0.5, "no_speech_prob": 0.0, "compression_ratio": 1.0, '
        '"temperature": 0.0}\n'
    )
    assert render_jsonl(Transcript((), None, 2.0), ITEM) == ""


def test_texts_come_back_whole() -> None:
    wanted = [text.strip().replace("\ud800", "\ufffd") for text in TEXTS if one_line(text)]
    assert [line["text"] for line in lines(render_jsonl(odd(), ITEM))] == wanted
