"""All that is known of a transcript, as JSON for programs.

Schema 1 (transcript.schema.json), in this order; keys may be added under the same number, none is renamed or left out:

    schema      1
    source      file name of the recording (bytes that are no UTF-8 as \\xNN), or null
    model       name of the model that heard it, or null
    language    Whisper's code ("en"), or null
    duration    seconds decoded
    truncated   true where the recording ended before its header said
    warnings    list of sentences
    text        the segments' texts, joined by single spaces
    segments    list of: start, end (seconds), text, words, speaker, channel, avg_logprob, no_speech_prob,
                compression_ratio, temperature; words is a list of: start, end, text, probability

Times have three decimals. A number that is not finite is null. A word's text keeps its leading space: joined, the words
are the segment.
"""

from __future__ import annotations

import dataclasses
import json
import math
import numbers
import re

from mlxbatch.errors import show
from mlxbatch.types import Item, Segment, Transcript, Word

SCHEMA = 1


def render_json(transcript: Transcript, item: Item | None = None) -> str:
    record = {
        "schema": SCHEMA,
        "source": show(item.source.name) if item is not None else None,
        "model": _encodable(transcript.model) or None,
        "language": transcript.language,
        "duration": _number(transcript.seconds, 3),
        "truncated": transcript.truncated,
        "warnings": [_encodable(warning) for warning in transcript.warnings],
        "text": _encodable(transcript.text),
        "segments": [segment_record(segment) for segment in transcript.segments],
    }
    return json.dumps(record, ensure_ascii=False, allow_nan=False, indent=2) + "\n"


def segment_record(segment: Segment) -> dict[str, object]:
    """All that is known of a segment, fit for JSON."""
    return _timed(segment) | {"text": _encodable(segment.text.strip()), "words": [_timed(w) for w in segment.words]}


def _timed(record: Segment | Word) -> dict[str, object]:
    """All fields in the order of the record, fit for JSON."""
    fields = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    return {name: _plain(name, value) for name, value in fields.items()}


def _plain(name: str, value: object) -> object:
    # An engine's numpy scalars are numbers too, but no JSON.
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return _number(float(value), 3 if name in ("start", "end") else 6)
    return _encodable(value) if isinstance(value, str) else value


def _number(value: float, digits: int) -> float | None:
    return round(value, digits) if math.isfinite(value) else None


def _encodable(text: str) -> str:
    return re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)
