"""JSON lines: a segment a line, each complete by itself, so that the files of a whole night can be joined with cat."""

from __future__ import annotations

import json
import re

from mlxbatch.errors import show
from mlxbatch.types import Item, Transcript
from mlxbatch.writers.plain import one_line
from mlxbatch.writers.record import segment_record

# Ends of lines to Unicode, and to readers that split by them, though not to JSON.
_LINE_ENDS = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def render_jsonl(transcript: Transcript, item: Item | None = None) -> str:
    """Segments that say something, as in the JSON record, after the file's name and language (line.schema.json)."""
    about = {"source": show(item.source.name) if item is not None else None, "language": transcript.language}
    spoken = [segment for segment in transcript.segments if one_line(segment.text)]
    return "".join(f"{_line(about | segment_record(segment))}\n" for segment in spoken)


def _line(record: dict[str, object]) -> str:
    text = json.dumps(record, ensure_ascii=False, allow_nan=False)
    return re.sub("[\x85\u2028\u2029]", lambda found: _LINE_ENDS[found[0]], text)
