"""What a model heard in a piece of audio, from whichever of mlx-audio's result types it comes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlxbatch.errors import UsageError
from mlxbatch.languages import language_code
from mlxbatch.types import Segment, Word


@dataclass(frozen=True, slots=True)
class Heard:
    """One piece's text. Times are seconds from the piece's start; a segment's `end` of inf is the piece's end.

    `cut`: what follows may be missing. `problem`: why there is no text, though there was sound; the recording fails
    with it.
    """

    segments: tuple[Segment, ...] = ()
    language: str | None = None
    tokens: int = 0
    cut: bool = False
    problem: str | None = None

    @property
    def text(self) -> str:
        return " ".join(segment.text for segment in self.segments)


def plain(
    text: str, language: str | None = None, tokens: int = 0, avg_logprob: float = 0.0, *, cut: bool = False
) -> Heard:
    """A model that says nothing of time: one segment for the whole piece, none for no text."""
    segment = Segment(0.0, math.inf, text.strip(), avg_logprob=avg_logprob)
    return Heard((segment,) if segment.text else (), language, tokens, cut)


def placed(heard: Heard, start: float, seconds: float, channel: int | None) -> tuple[Segment, ...]:
    """The segments of a piece that begins at `start` and is `seconds` long, in the recording's time, rounded to ms.

    Models may name times beyond the audio they were given: those are moved to its end. What takes no time is kept
    with its text.
    """

    def at(time: float) -> float:
        return round(start + min(max(time, 0.0), seconds), 3)

    def move(segment: Segment) -> Segment:
        words = tuple(replace(word, start=at(word.start), end=at(word.end)) for word in segment.words)
        return replace(segment, start=at(segment.start), end=at(segment.end), words=words, channel=channel)

    return tuple(move(segment) for segment in heard.segments if segment.text)


def spoken_segments(found: Iterable[Mapping[str, Any]]) -> tuple[Segment, ...]:
    """Segments of an STTOutput: dictionaries with text, and start, end (seconds, "12.5" or "00:12.5"), speaker_id.

    Those without two times in order count as the whole piece.
    """
    return tuple(_segment(one) for one in found if str(one.get("text", "")).strip())


def _segment(one: Mapping[str, Any]) -> Segment:
    start, end = _seconds(one.get("start")), _seconds(one.get("end"))
    if start is None or end is None or end <= start:
        start, end = start or 0.0, math.inf
    speaker = one.get("speaker_id")
    return Segment(start, end, str(one["text"]).strip(), speaker=None if speaker is None else str(speaker))


def _seconds(value: Any) -> float | None:
    """12.5, "12.5", "12.5s", "1:12.5" or "0:01:12.5" in seconds; None for anything else."""
    parts = str(value).strip().rstrip("s").split(":")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        return None
    seconds = sum(number * 60**place for place, number in enumerate(reversed(numbers)))
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


@dataclass(slots=True)
class Token:
    """A piece of a word with its time in seconds; `text` begins with a space where a word begins.

    `mlx_audio.stt.models.nemo.alignment` makes sentences of anything with these fields.
    """

    id: int
    text: str
    start: float
    duration: float
    probability: float
    end: float = 0.0

    def __post_init__(self) -> None:
        self.end = self.start + self.duration


def sentence(text: str, start: float, end: float, tokens: Sequence[Token]) -> Segment:
    """A sentence of an AlignedResult; its words are as likely as the least likely of their tokens."""
    logprob = sum(math.log(max(token.probability, 1e-30)) for token in tokens) / len(tokens)
    return Segment(start, end, text.strip(), tuple(_words(tokens)), avg_logprob=logprob)


def aligned(found: Iterable[Any]) -> tuple[Segment, ...]:
    """Sentences of mlx-audio's own AlignedResult. How likely its tokens are it does not say, so words' is NaN."""
    return tuple(
        replace(
            _segment({"text": one.text, "start": one.start, "end": one.end}),
            words=tuple(_words([Token(t.id, t.text, t.start, t.duration, math.nan) for t in one.tokens])),
        )
        for one in found
        if one.text.strip()
    )


def _words(tokens: Sequence[Token]) -> Iterator[Word]:
    """Words begin with a space, and keep it: joined they are the sentence."""
    words: list[list[Token]] = []
    for token in tokens:
        if token.text.startswith(" ") or not words:
            words.append([])
        words[-1].append(token)
    for word in words:
        text = "".join(token.text for token in word)
        if text.strip():
            yield Word(word[0].start, word[-1].end, text, min(token.probability for token in word))


def code_of(language: Any) -> str | None:
    """The code of a language as a model names it ("English", "en", "<|en|>"), None where it is none."""
    name = re.sub(r"[^A-Za-z ]", "", str(language or ""))
    try:
        return language_code(name) if name else None
    except UsageError:
        return None
