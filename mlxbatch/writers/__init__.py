"""Transcripts as text: one pure function per format, and the atomic writing of files apart from them."""

from __future__ import annotations

from collections.abc import Callable

from mlxbatch.types import Item, Transcript
from mlxbatch.writers.plain import render_txt
from mlxbatch.writers.record import render_json
from mlxbatch.writers.subtitles import render_srt, render_vtt

Writer = Callable[[Transcript, Item | None], str]

# The format's name is also the suffix of its files.
WRITERS: dict[str, Writer] = {"txt": render_txt, "srt": render_srt, "vtt": render_vtt, "json": render_json}

__all__ = ["WRITERS", "Writer", "render_json", "render_srt", "render_txt", "render_vtt"]
