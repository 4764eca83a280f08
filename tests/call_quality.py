"""How well a call's transcript says who said what, and when: words under the right label, starts of turns."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import jiwer

from mlxbatch.quality import normalizer


@dataclass(frozen=True)
class Spoken:
    """A stretch of speech, of the reference or of a transcript; times in seconds."""

    channel: int
    start: float
    end: float
    text: str


def label_share(reference: Sequence[Spoken], heard: Sequence[Spoken]) -> float:
    """The share of the words that were heard which stand under the channel that they were spoken in, from 0 to 1.

    Words are normalized and aligned, channel by channel, with the reference of their own channel and with that of the
    others. A word that fits its own is right, one that fits only another's is wrong. One that fits neither was
    misheard, and is right where its segment overlaps in time with what was said in its channel, else it was invented.
    """
    normalize = normalizer("en")
    right = total = 0
    for channel in {one.channel for one in heard}:
        own = [one for one in reference if one.channel == channel]
        segments = [(one, normalize(one.text).split()) for one in heard if one.channel == channel]
        words = [(segment, word) for segment, found in segments for word in found]
        fits = _hits(normalize(_text(own)).split(), [word for _, word in words])
        others = _hits(
            normalize(_text(one for one in reference if one.channel != channel)).split(), [word for _, word in words]
        )
        total += len(words)
        right += sum(
            number in fits or (number not in others and any(_overlap(segment, one) for one in own))
            for number, (segment, _) in enumerate(words)
        )
    return right / total if total else 1.0


def turn_starts(reference: Sequence[Spoken], heard: Sequence[Spoken]) -> float:
    """The median of seconds between the start of a turn and the nearest of the same channel on the other side.

    From the reference's turns to those heard, and the other way round, so that neither missing nor additional turns go
    unseen; the larger of both medians.
    """
    spoken, found = _turns(reference), _turns(heard)
    return max(_median(spoken, found), _median(found, spoken))


def _median(turns: Sequence[Spoken], others: Sequence[Spoken]) -> float:
    near = [
        min((abs(one.start - other.start) for other in others if other.channel == one.channel), default=float("inf"))
        for one in turns
    ]
    return statistics.median(near) if near else 0.0


def _turns(spoken: Iterable[Spoken]) -> list[Spoken]:
    """The first stretch of each turn: of what one side says until the other begins."""
    turns: list[Spoken] = []
    channel = None
    for one in sorted((one for one in spoken if one.text.strip()), key=lambda one: one.start):
        turns += [one] if one.channel != channel else []
        channel = one.channel
    return turns


def _text(spoken: Iterable[Spoken]) -> str:
    return " ".join(one.text for one in sorted(spoken, key=lambda one: one.start))


def _overlap(one: Spoken, other: Spoken) -> bool:
    return one.start < other.end and other.start < one.end


def _hits(reference: list[str], heard: list[str]) -> set[int]:
    """Which of the words heard are those of the reference, in its order."""
    if not reference or not heard:
        return set()
    (chunks,) = jiwer.process_words(" ".join(reference), " ".join(heard)).alignments
    return {
        number for chunk in chunks if chunk.type == "equal" for number in range(chunk.hyp_start_idx, chunk.hyp_end_idx)
    }
