"""Calibration: the recordings, with their texts, that original and converted model are tried on."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

from mlxbatch.audio import decode
from mlxbatch.convert.proof.quality import Calibration, Level
from mlxbatch.errors import UsageError, show
from mlxbatch.file_list import read_bytes
from mlxbatch.languages import language_code
from mlxbatch.manifest import table
from mlxbatch.models.identity import file_sha
from mlxbatch.types import Item
from mlxbatch.walk import MEDIA_SUFFIXES

COLUMNS = ("path", "text", "language")
RATE = 16_000
# What a quick proof hears at most, in seconds: for Whisper base on two cores, ten seconds for each model.
QUICK = 60.0
# Of the recordings that the project ships, those in the public domain (examples/SOURCES.md).
SHIPPED = "books"


@dataclass(frozen=True, slots=True)
class Clip:
    """A recording; `text` is what is said in it and `language` its code, None where nobody wrote it down."""

    path: Path
    text: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Sound:
    """A clip with its samples, float32 mono at 16 kHz."""

    clip: Clip
    samples: NDArray[np.float32]

    @property
    def seconds(self) -> float:
        return len(self.samples) / RATE

    def at(self, rate: int) -> NDArray[np.float32]:
        """The samples at another rate."""
        return self.samples if rate == RATE else soxr.resample(self.samples, RATE, rate, quality="HQ")


@dataclass(frozen=True, slots=True)
class Clips:
    """All clips of one calibration, under the name that it was asked for by."""

    name: str
    clips: tuple[Clip, ...]

    def sounds(self, level: Level) -> list[Sound]:
        """Decoded: for a quick proof the first that fit in QUICK seconds, and one in any case, else all.

        Raises ItemError for a recording that cannot be decoded.
        """
        found: list[Sound] = []
        left = QUICK
        for clip in self.clips:
            sound = Sound(clip, decode(Item(str(clip.path), clip.path, Path(clip.path.name)), RATE).samples[0])
            left -= sound.seconds
            if level == "quick" and found and left < 0:
                break
            found.append(sound)
        return found

    def described(self, sounds: list[Sound], words: int) -> Calibration:
        """What is said in a report of the clips that were used; `words` are those of their texts."""
        seconds = sum(sound.seconds for sound in sounds)
        return Calibration(self.name, sha256([one.clip for one in sounds]), len(sounds), round(seconds, 3), words)


def sha256(clips: list[Clip]) -> str:
    """Of recordings and texts, in order; where the files lie, and what they are called, does not matter."""
    total = hashlib.sha256()
    for clip in clips:
        total.update(json.dumps([file_sha(clip.path), clip.text, clip.language]).encode())
    return total.hexdigest()


def shipped() -> Clips:
    """Those that come with the package: sentences of a LibriVox recording, in the public domain, with their texts."""
    package = Path(str(resources.files("mlxbatch")))
    root = package / "examples"
    root = root if root.is_dir() else package.parent / "examples"
    rows = csv.DictReader(io.StringIO((root / "texts.tsv").read_text("utf-8")), delimiter="\t", quoting=csv.QUOTE_NONE)
    texts = {row["file"]: row["text"] for row in rows}
    found = (Clip(root / name, text, "en") for name, text in texts.items() if name.startswith(f"{SHIPPED}/"))
    return Clips("shipped clips", tuple(found))


def calibration(source: Path) -> Clips:
    """Clips of a directory of audio with a .txt of the same name beside each, of a .jsonl, or of a csv.

    A text may be missing: then that clip tells how the models differ, not which is right. A manifest has path, text and
    language (columns, or keys among others), paths relative to its own folder. Raises UsageError where there is none,
    or it cannot be understood.
    """
    if source.is_dir():
        found = tuple(_beside(source))
    elif source.suffix.lower() in (".jsonl", ".ndjson"):
        found = tuple(_rows(source, _lines(source)))
    else:
        # In a csv what is empty was not filled in; in JSON an empty text is one, of a recording without words.
        filled = ((line, {key: value for key, value in row.items() if value}) for line, row in table(source, COLUMNS))
        found = tuple(_rows(source, filled))
    if not found:
        raise UsageError(f"--calibration {show(source)}: no recordings in it")
    return Clips(show(source), found)


def _beside(folder: Path) -> Iterator[Clip]:
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in MEDIA_SUFFIXES and path.is_file():
            text = path.with_suffix(".txt")
            yield Clip(path, _read(text, "text").strip() if text.is_file() else None)


def _read(path: Path, what: str) -> str:
    try:
        return read_bytes(path, what).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{show(path)}: not UTF-8: convert it with iconv -t UTF-8") from error


def _lines(source: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(_read(source, "manifest").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UsageError(f"{show(source)}, line {number}: not JSON ({error})") from error
        if not isinstance(row, dict):
            raise UsageError(f"{show(source)}, line {number}: not a JSON object")
        yield number, row


def _rows(source: Path, rows: Iterator[tuple[int, Mapping[str, Any]]]) -> Iterator[Clip]:
    for line, row in rows:
        path, text, language = (row.get(column) for column in COLUMNS)
        for column, value in zip(COLUMNS, (path, text, language), strict=True):
            if value is not None and not isinstance(value, str):
                raise UsageError(f"{show(source)}, line {line}: {column} is no text")
        if not path or not (source.parent / path).is_file():
            what = f"no such file: {show(path)}" if path else "no path, which names the recording"
            raise UsageError(f"{show(source)}, line {line}: {what}")
        try:
            yield Clip(source.parent / path, text, language_code(language) if language else None)
        except UsageError as error:
            raise UsageError(f"{show(source)}, line {line}: {error}") from error
