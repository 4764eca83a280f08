"""SubRip and WebVTT from one list of cues whose times are always in order.

Sources: the W3C's "WebVTT: The Web Video Text Tracks Format"; SubRip has no specification, so what its common readers
(VLC, mpv, ffmpeg, pysubs2) take for markup is kept out of the text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mlxbatch.line_rules import LineRules
from mlxbatch.types import Item, Segment, Transcript
from mlxbatch.writers.layout import Line, cues_of_lines
from mlxbatch.writers.line_breaks import columns
from mlxbatch.writers.pieces import Piece, Timed, milliseconds, timed
from mlxbatch.writers.plain import one_line

_PLAIN = LineRules()


@dataclass(frozen=True, slots=True)
class Cue:
    """Times in whole milliseconds from the start; the text is lines that are not blank.

    `words` of the text are to be marked while they are spoken; `marked` is the stretch of it that is, or None.
    """

    start: int
    end: int
    text: str
    speaker: str | None = None
    words: tuple[Piece, ...] = ()
    marked: Piece | None = None


def render_srt(transcript: Transcript, item: Item | None = None, rules: LineRules = _PLAIN) -> str:
    """SubRip; an empty transcript is an empty file. A speaker's name takes its columns of a line."""
    blocks = (
        f"{number}\n{_clock(cue.start, ',')} --> {_clock(cue.end, ',')}\n{_srt_text(cue)}\n\n"
        for number, cue in enumerate(cues(transcript, rules, labels=True), 1)
    )
    return "".join(blocks)


def render_vtt(transcript: Transcript, item: Item | None = None, rules: LineRules = _PLAIN) -> str:
    """WebVTT; an empty transcript is the bare header. Players do not show a speaker's name."""
    found = cues(transcript, rules)
    blocks = (f"{_clock(cue.start, '.')} --> {_clock(cue.end, '.')}\n{_vtt_text(cue)}\n\n" for cue in found)
    return "WEBVTT\n\n" + "".join(blocks)


def cues(transcript: Transcript, rules: LineRules = _PLAIN, *, labels: bool = False) -> list[Cue]:
    """The cues of all segments that say something: ordered by start, each at least 1 ms long.

    A start is kept to the millisecond unless it repeats; where two cues of a speaker, or of nobody in particular,
    overlap, the earlier ends where the later begins. Two speakers may talk at once: players show both. No cue has text
    of two segments. `labels`: a line has to have room for the speaker's name.
    """
    spoken = sorted(filter(_says, transcript.segments), key=lambda one: milliseconds(one.start))
    limits = _limits([milliseconds(one.start) for one in spoken], [_speaker(one) for one in spoken])
    found = [
        cue for segment, limit in zip(spoken, limits, strict=True) for cue in _of_segment(segment, limit, rules, labels)
    ]
    in_order = _in_order(sorted(found, key=lambda cue: cue.start))
    return sorted((one for cue in in_order for one in _highlighted(cue)), key=lambda cue: cue.start)


def _says(segment: Segment) -> bool:
    return bool(one_line(segment.text))


def _speaker(segment: Segment) -> str | None:
    return one_line(segment.speaker or "") or None


def _of_segment(segment: Segment, limit: float, rules: LineRules, labels: bool) -> list[Cue]:
    """The cues of a segment whose speaker begins the next one at `limit`, in milliseconds."""
    text, speaker = one_line(segment.text), _speaker(segment)
    whole = Cue(milliseconds(segment.start), milliseconds(segment.end), text, speaker)
    if rules == _PLAIN:
        return [whole]
    said = timed(segment, text, rules.width, limit)
    label = columns(f"{speaker}: ") if labels and speaker else 0
    found = [_cue(said, lines, speaker) for lines in cues_of_lines(said, rules, label)]
    if not rules.timed:  # the one cue is the segment, on several lines
        return [replace(whole, text=cue.text) for cue in found]
    return found if rules.highlight and said.known else [replace(cue, words=()) for cue in found]


def _cue(said: Timed, lines: Sequence[Line], speaker: str | None) -> Cue:
    texts, words, at = [], [], 0
    for line in lines:
        begin = line[0].begin
        texts.append(said.text[begin : line[-1].end])
        words += [Piece(at + one.begin - begin, at + one.end - begin, one.start, one.stop) for one in line]
        at += len(texts[-1]) + 1  # the line's end
    return Cue(lines[0][0].start, lines[-1][-1].stop, "\n".join(texts), speaker, tuple(words))


def _in_order(found: Sequence[Cue]) -> list[Cue]:
    """Cues by their start, each of them at least 1 ms after the one before, and ended by the speaker's next."""
    starts = _increasing([cue.start for cue in found])
    limits = _limits(starts, [cue.speaker for cue in found])
    return [
        replace(cue, start=start, end=_end(cue, start, limit))
        for cue, start, limit in zip(found, starts, limits, strict=True)
    ]


def _highlighted(cue: Cue) -> list[Cue]:
    """A cue for each word while it is spoken, and for each pause; the cue itself where none is to be marked."""
    if not cue.words:
        return [cue]
    found, now = [], cue.start
    for word in cue.words:
        start, stop = (min(max(time, now), cue.end) for time in (word.start, word.stop))
        found += [replace(cue, start=now, end=start, words=()), replace(cue, start=start, end=stop, marked=word)]
        now = stop
    found.append(replace(cue, start=now, end=cue.end, words=()))
    return [replace(one, words=()) for one in found if one.start < one.end]


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


def _end(cue: Cue, start: int, limit: float) -> int:
    end = max(cue.end, start + 1)
    return end if end <= limit else int(limit)


def _clock(milliseconds: int, point: str) -> str:
    """HH:MM:SS and the point of the format, with more digits for the hours where a day is not enough.

    From whole milliseconds, so that 59.9996 s is 00:01:00,000 and never 00:00:60,000.
    """
    seconds, fraction = divmod(milliseconds, 1000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours:02d}:{minute:02d}:{second:02d}{point}{fraction:03d}"


def _srt_text(cue: Cue) -> str:
    label = f"{cue.speaker}: " if cue.speaker else ""
    return _subrip(label) + _marked(cue, _subrip) if cue.marked else _subrip(label + cue.text)


def _subrip(text: str) -> str:
    """SubRip cannot escape: arrows would look like times, and tags or `{\\an8}` codes would be swallowed."""
    text = text.replace("-->", "->").replace("{\\", "(\\")
    return re.sub(r"<(?=\s*/?\s*[A-Za-z])", "‹", text)


def _vtt_text(cue: Cue) -> str:
    voice = f"<v {_escaped(cue.speaker)}>" if cue.speaker else ""
    return voice + _marked(cue, _escaped)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _marked(cue: Cue, escaped: Callable[[str], str]) -> str:
    """The text with its marked word underlined.

    In WebVTT too, which has times inside a cue for that: Firefox and whatever plays by ffmpeg's decoder pass over them,
    and others show them only with a style sheet.
    """
    if cue.marked is None:
        return escaped(cue.text)
    begin, end = cue.marked.begin, cue.marked.end
    before, word, after = cue.text[:begin], cue.text[begin:end], cue.text[end:]
    return f"{escaped(before)}<u>{escaped(word)}</u>{escaped(after)}"
