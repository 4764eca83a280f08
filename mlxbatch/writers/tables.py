"""Tables, one segment a row: tsv as openai/whisper writes it, csv for spreadsheets.

Sources: openai/whisper `WriteTSV`; RFC 4180; OWASP's "CSV Injection".
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator

from mlxbatch.errors import show
from mlxbatch.types import Item, Segment, Transcript
from mlxbatch.writers.plain import one_line

COLUMNS = ("file", "start", "end", "speaker", "channel", "text")
# What makes a spreadsheet compute a cell that begins with it.
_FORMULA = ("=", "+", "-", "@")


def render_tsv(transcript: Transcript, item: Item | None = None) -> str:
    """start, end (whole milliseconds), text: these three columns and no more, as Whisper's readers expect."""
    rows = (
        f"{_milliseconds(segment.start)}\t{_milliseconds(segment.end)}\t{text}\n"
        for segment, text in _spoken(transcript)
    )
    return "start\tend\ttext\n" + "".join(rows)


def render_csv(transcript: Transcript, item: Item | None = None) -> str:
    """RFC 4180 with a header: COLUMNS, times in seconds; no text is taken for a formula."""
    out = io.StringIO(newline="")
    table = csv.writer(out, lineterminator="\r\n")
    table.writerow(COLUMNS)
    file = _cell(show(item.source.name)) if item is not None else ""
    for segment, text in _spoken(transcript):
        speaker = _cell(one_line(segment.speaker or ""))
        channel = "" if segment.channel is None else int(segment.channel)
        table.writerow([file, _seconds(segment.start), _seconds(segment.end), speaker, channel, _cell(text)])
    return out.getvalue()


def _spoken(transcript: Transcript) -> Iterator[tuple[Segment, str]]:
    """Segments that say something, and what, on one line without tabs."""
    return ((segment, text) for segment in transcript.segments if (text := one_line(segment.text)))


def _cell(text: str) -> str:
    """Shown as it is by a spreadsheet, which hides the apostrophe and would run "=cmd" or stumble over "- yes"."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _milliseconds(seconds: float) -> str:
    return str(round(seconds * 1000)) if math.isfinite(seconds) else ""


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}" if math.isfinite(seconds) else ""
