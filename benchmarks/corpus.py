"""The recordings that are measured on: a folder of real ones with a manifest, which is no part of this repository."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"

SHORT_KINDS = ("en_wer_bench", "en_keyword", "telephony", "telephony_prompt")
CHAPTER = "long_lj_chapter"


@dataclass(frozen=True, slots=True)
class Clip:
    """A recording with what is said in it; where `channels` are given, the text is that of each channel."""

    path: Path
    seconds: float
    text: str = ""
    channels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Noisy:
    """A recording with noise in it, and the same without; `snr`, in dB, where it was mixed at a known one."""

    path: Path
    clean: Path
    snr: int | None


@dataclass(frozen=True)
class Corpus:
    """A folder of recordings; `manifest.jsonl` has a line for each: path, kind, language, duration_s, text ..."""

    folder: Path

    def sentences(self) -> list[Clip]:
        """The sentences of en_wer_bench: read speech of 1.5 to 9.7 s, as it is spoken."""
        return [clip(self.folder, row) for row in self._rows("en_wer_bench") if row.get("utt_style") == "sentence"]

    def english_short(self) -> list[Clip]:
        """English of at most 30 s, a voice, a text, and a file that any library reads: enough to fill 16 slots."""
        return [
            clip(self.folder, row)
            for row in self._rows(*SHORT_KINDS)
            if row["language"] == "en" and row["text"] and row["duration_s"] <= 30 and row["decodes_soundfile"]
        ]

    def calls(self) -> list[Clip]:
        """Telephone calls with a side on each channel."""
        return [clip(self.folder, row) for row in self._rows("call_stereo")]

    def chapter(self) -> Clip:
        """A chapter read aloud, 4 minutes."""
        return next(clip(self.folder, row) for row in self._rows("long") if row["id"] == CHAPTER)

    def noisy(self) -> list[Noisy]:
        """Speech in noise of which the speech alone is there, too."""
        rows = [row for row in self._rows("enhance_noisy") if row.get("clean")]
        return [Noisy(self.folder / row["path"], self.folder / row["clean"], row.get("snr_db")) for row in rows]

    def _rows(self, *kinds: str) -> list[dict[str, Any]]:
        manifest = self.folder / "manifest.jsonl"
        if not manifest.is_file():
            raise SystemExit(f"no recordings: {manifest} is missing (--data DIR says where they are)")
        rows = [json.loads(line) for line in manifest.read_text("utf-8").splitlines()]
        return [row for row in rows if row["kind"] in kinds]


def clip(folder: Path, row: dict[str, Any]) -> Clip:
    """A line of the manifest."""
    texts = row.get("channel_texts") or {}
    channels = tuple(texts[str(number)] for number in range(len(texts)))
    return Clip((folder / row["path"]).resolve(), row["duration_s"], row["text"] or "", channels)


def seconds(clips: Sequence[Clip]) -> float:
    """Of audio, each channel that is transcribed by itself counted."""
    return sum(one.seconds * max(1, len(one.channels)) for one in clips)
