"""Transcripts as text: one pure function per format, and the atomic writing of files apart from them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mlxbatch.line_rules import LineRules
from mlxbatch.types import Item, Transcript
from mlxbatch.writers.lines import render_jsonl
from mlxbatch.writers.plain import render_txt
from mlxbatch.writers.record import render_json
from mlxbatch.writers.subtitles import render_srt, render_vtt
from mlxbatch.writers.tables import render_csv, render_tsv
from mlxbatch.writers.turns import render_rttm

Writer = Callable[[Transcript, Item | None], str]

# The format's name is also the suffix of its files.
WRITERS: dict[str, Writer] = {
    "txt": render_txt,
    "srt": render_srt,
    "vtt": render_vtt,
    "tsv": render_tsv,
    "csv": render_csv,
    "json": render_json,
    "jsonl": render_jsonl,
    "rttm": render_rttm,
}

# Those that have lines and cues, which LineRules are for.
SUBTITLES = {"srt": render_srt, "vtt": render_vtt}


def writers(rules: LineRules) -> dict[str, Writer]:
    """All of them, those of subtitles under the rules."""
    return WRITERS | {name: partial(render, rules=rules) for name, render in SUBTITLES.items()}


__all__ = [
    "SUBTITLES",
    "WRITERS",
    "LineRules",
    "Writer",
    "render_csv",
    "render_json",
    "render_jsonl",
    "render_rttm",
    "render_srt",
    "render_tsv",
    "render_txt",
    "render_vtt",
    "writers",
]
