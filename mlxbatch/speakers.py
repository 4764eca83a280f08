"""Who speaks in which channel: names put to a transcript's segments, and turns made of them. Pure.

Names belong to rendering. A stored transcript knows channels only, so that other names need no second inference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from mlxbatch.types import Channels, Segment, Transcript


@dataclass(frozen=True, slots=True)
class Turn:
    """What one speaker says until another begins."""

    speaker: str | None
    segments: tuple[Segment, ...]


def labelled(transcript: Transcript, names: Sequence[str], channels: Channels) -> Transcript:
    """The transcript with a speaker on each segment that can have one; `channels` is what was asked of the recording.

    Channels that were heard one by one are named from the first, "channel 2" where the names do not reach. A channel
    that was asked for by its number has a name where one was given. In a mix, and in a recording that turned out to
    have one channel only, nobody is told from anybody, and nobody is named.
    """
    if len(transcript.channels) < 2 and not isinstance(channels, int):
        return transcript
    default = len(transcript.channels) > 1
    segments = tuple(replace(one, speaker=_name(one, names, default)) for one in transcript.segments)
    return replace(transcript, segments=segments)


def _name(segment: Segment, names: Sequence[str], default: bool) -> str | None:
    channel = segment.channel
    if channel is None:
        return segment.speaker
    if channel < len(names):
        return names[channel]
    return f"channel {channel}" if default else segment.speaker


def turns(segments: Sequence[Segment]) -> list[Turn]:
    """Segments in their order, those of one speaker in a row together."""
    return [Turn(speaker, tuple(some)) for speaker, some in groupby(segments, key=lambda one: one.speaker)]
