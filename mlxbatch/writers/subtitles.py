"""SubRip and WebVTT from one list of cues whose times are always in order.

Sources: the W3C's "WebVTT: The Web Video Text Tracks Format"; SubRip has no specification, so what its common readers
(VLC, mpv, ffmpeg, pysubs2) take for markup is kept out of the text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from mlxbatch.types import Item, Segment, Transcript
from mlxbatch.writers.plain import one_line


@dataclass(frozen=True, slots=True)
class Cue:
    """Times in whole milliseconds from the start; the text is one line that is not blank."""

    start: int
    end: int
    text: str
    speaker: str | None = None


def render_srt(transcript: Transcript, item: Item | None = None) -> str:
    """SubRip; an empty transcript is an empty file."""
    blocks = (
        f"{number}\n{_clock(cue.start, ',')} --> {_clock(cue.end, ',')}\n{_srt_text(cue)}\n\n"
        for number, cue in enumerate(cues(transcript), 1)
    )
    return "".join(blocks)


def render_vtt(transcript: Transcript, item: Item | None = None) -> str:
    """WebVTT; an empty transcript is the bare header."""
    blocks = (f"{_clock(cue.start, '.')} --> {_clock(cue.end, '.')}\n{_vtt_text(cue)}\n\n" for cue in cues(transcript))
    return "WEBVTT\n\n" + "".join(blocks)


def cues(transcript: Transcript) -> list[Cue]:
    """One cue per segment that says something: ordered by start, each at least 1 ms long.

    A start is kept to the millisecond unless it repeats; where two cues of a speaker, or of nobody in particular,
    overlap, the earlier ends where the later begins. Two speakers may talk at once: players show both.
    """
    spoken = [(segment, text) for segment in transcript.segments if (text := one_line(segment.text))]
    spoken.sort(key=lambda pair: _milliseconds(pair[0].start))
    starts = _increasing([_milliseconds(segment.start) for segment, _ in spoken])
    speakers = [one_line(segment.speaker or "") or None for segment, _ in spoken]
    return [
        Cue(start, _end(segment, start, limit), text, speaker)
        for (segment, text), start, limit, speaker in zip(
            spoken, starts, _limits(starts, speakers), speakers, strict=True
        )
    ]


def _limits(starts: Sequence[int], speakers: Sequence[str | None]) -> list[float]:
    """Where the next cue of the same speaker begins, for each cue."""
    limits: list[float] = []
    following: dict[str | None, float] = {}
    for start, speaker in zip(reversed(starts), reversed(speakers), strict=True):
        limits.append(following.get(speaker, math.inf))
        following[speaker] = start
    return limits[::-1]


def _increasing(starts: Sequence[int]) -> list[int]:
    increasing: list[int] = []
    for start in starts:
        increasing.append(max(start, increasing[-1] + 1) if increasing else start)
    return increasing


def _end(segment: Segment, start: int, limit: float) -> int:
    end = max(_milliseconds(segment.end), start + 1)
    return end if end <= limit else int(limit)


def _milliseconds(seconds: float) -> int:
    return max(0, round(seconds * 1000)) if math.isfinite(seconds) else 0


def _clock(milliseconds: int, point: str) -> str:
    """HH:MM:SS and the point of the format, with more digits for the hours where a day is not enough.

    From whole milliseconds, so that 59.9996 s is 00:01:00,000 and never 00:00:60,000.
    """
    seconds, fraction = divmod(milliseconds, 1000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours:02d}:{minute:02d}:{second:02d}{point}{fraction:03d}"


def _srt_text(cue: Cue) -> str:
    """SubRip cannot escape: arrows would look like times, and tags or `{\\an8}` codes would be swallowed."""
    text = f"{cue.speaker}: {cue.text}" if cue.speaker else cue.text
    text = text.replace("-->", "->").replace("{\\", "(\\")
    return re.sub(r"<(?=\s*/?\s*[A-Za-z])", "‹", text)


def _vtt_text(cue: Cue) -> str:
    voice = f"<v {_escaped(cue.speaker)}>" if cue.speaker else ""
    return voice + _escaped(cue.text)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
