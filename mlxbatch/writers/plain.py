"""Plain text: what was said, one segment a line."""

from __future__ import annotations

import re

from mlxbatch.types import Item, Transcript


def render_txt(transcript: Transcript, item: Item | None = None) -> str:
    """The text of each segment on a line of its own, the last line ended too; nothing at all where nothing was said."""
    lines = (one_line(segment.text) for segment in transcript.segments)
    return "".join(f"{line}\n" for line in lines if line)


def one_line(text: str) -> str:
    """The text on one line that every encoding and player takes: single spaces, no control characters or surrogates.

    Format characters stay: Persian and the Indic scripts are spelled with joiners.
    """
    text = re.sub("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]", "", text)
    return " ".join(re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text).split())
