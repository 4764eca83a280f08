"""RTTM: who speaks when, for scoring and training of diarization.

Source: NIST's "The 2009 (RT-09) Rich Transcription Meeting Recognition Evaluation Plan", appendix A: ten fields with
blanks between them, <NA> where one is empty; channels count from 1.
"""

from __future__ import annotations

import math

from mlxbatch.errors import show
from mlxbatch.types import Item, Segment, Transcript
from mlxbatch.writers.plain import one_line


def render_rttm(transcript: Transcript, item: Item | None = None) -> str:
    """A SPEAKER line for each segment that says something, by start; the file's id is its output's name."""
    file = _field(show(item.relpath.name) if item is not None else "")
    spoken = [segment for segment in transcript.segments if one_line(segment.text) and _lasts(segment)]
    spoken.sort(key=lambda segment: segment.start)
    return "".join(_line(file, segment) for segment in spoken)


def _line(file: str, segment: Segment) -> str:
    channel = 1 if segment.channel is None else int(segment.channel) + 1
    times = f"{segment.start:.3f} {segment.end - segment.start:.3f}"
    return f"SPEAKER {file} {channel} {times} <NA> <NA> {_name(segment)} <NA> <NA>\n"


def _name(segment: Segment) -> str:
    """A channel is a speaker where none is named, and so is a recording."""
    if segment.speaker and one_line(segment.speaker):
        return _field(segment.speaker)
    return "speaker" if segment.channel is None else f"channel_{int(segment.channel)}"


def _lasts(segment: Segment) -> bool:
    times = (segment.start, segment.end)
    return all(map(math.isfinite, times)) and segment.start >= 0 and round(segment.end - segment.start, 3) > 0


def _field(text: str) -> str:
    """Blanks part the fields, so that none may hold one."""
    return one_line(text).replace(" ", "_") or "<NA>"
