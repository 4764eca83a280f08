"""Plain text: what was said, one segment a line; where speakers are known, one turn a line."""

from __future__ import annotations

import re

from mlxbatch.speakers import turns
from mlxbatch.types import Item, Transcript


def render_txt(transcript: Transcript, item: Item | None = None) -> str:
    """The text of each segment on a line of its own, the last line ended too; nothing at all where nothing was said.

    What one speaker says in a row is one line: "agent: Good morning. How can I help you?"
    """
    lines: list[str] = []
    for turn in turns([segment for segment in transcript.segments if one_line(segment.text)]):
        texts = [one_line(segment.text) for segment in turn.segments]
        speaker = one_line(turn.speaker or "")
        lines += [f"{speaker}: {' '.join(texts)}"] if speaker else texts
    return "".join(f"{line}\n" for line in lines)


def one_line(text: str) -> str:
    """The text on one line that every encoding and player takes: single spaces, no control characters or surrogates.

    Format characters stay: Persian and the Indic scripts are spelled with joiners.
    """
    text = re.sub("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]", "", text)
    return " ".join(re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text).split())
