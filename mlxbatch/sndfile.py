"""What libsndfile reads: WAV, AIFF, FLAC, Ogg and their like, and headerless PCM, mu-law, A-law, GSM and VOX."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO

import numpy as np
import soundfile

from mlxbatch.chunks import DataChunk, Mended
from mlxbatch.headerless import ENCODINGS, Rule
from mlxbatch.ogg import Link
from mlxbatch.regular_file import rewound
from mlxbatch.truncation import truncation
from mlxbatch.uniform import Samples, gathered, uniform, without_garbage

Refused = soundfile.SoundFileError

# Frames per read. Memory follows what is really there, never what the header says.
_BLOCK = 8192
_UNKNOWN_FRAMES = 2**62  # libsndfile says SF_COUNT_MAX where the header leaves the length open


class Forward(soundfile.SoundFile):  # type: ignore[misc]  # soundfile has no type hints
    """A sound file that is read from front to back: soundfile would seek to where it is after each block."""

    def seekable(self) -> bool:
        return False


@contextmanager
def open_sndfile(file: IO[bytes], chunk: DataChunk | None, links: Sequence[Link] = ()) -> Iterator[SndfileSource]:
    """The sound of an open file; of an Ogg file all its links. Raises soundfile.SoundFileError where it is refused."""
    with ExitStack() as stack:
        if len(links) > 1:
            views: list[object] = [Section(file, link.start, link.end) for link in links]
        else:
            # By its descriptor: a name may be no UTF-8, and its suffix may lie.
            views = [Mended(file, chunk) if chunk is not None and chunk.is_open else rewound(file)]
        sounds = [stack.enter_context(Forward(view, closefd=False)) for view in views]
        yield SndfileSource(sounds, chunk, os.fstat(file.fileno()).st_size, whole=all(link.whole for link in links))


@contextmanager
def open_raw(file: IO[bytes], rule: Rule) -> Iterator[SndfileSource]:
    """The sound of an open file without header."""
    how = ENCODINGS[rule.encoding].soundfile
    with Forward(
        rewound(file), format="RAW", samplerate=rule.rate, channels=rule.channels, closefd=False, **how
    ) as sound:
        yield SndfileSource([sound], None, os.fstat(file.fileno()).st_size)


class SndfileSource:
    """See source.Source. Several sounds, one after the other, are brought to the first one's rate and channels."""

    def __init__(self, sounds: Sequence[Forward], chunk: DataChunk | None, size: int, *, whole: bool = True) -> None:
        first = sounds[0]
        self._sounds, self._chunk, self._whole = sounds, chunk, whole
        self.sample_rate: int = first.samplerate
        self.channels: int = first.channels
        self.is_float: bool = first.subtype in ("FLOAT", "DOUBLE")
        self.stopped: str | None = None
        self.notes: list[str] = []
        # Where the length stands nowhere (a streamed FLAC): one byte per sample.
        self.seconds = sum(
            (sound.frames if sound.frames < _UNKNOWN_FRAMES else size // sound.channels) / sound.samplerate
            for sound in sounds
        )

    def blocks(self) -> Iterator[Samples]:
        if len(self._sounds) == 1:
            return self._read(self._sounds[0])
        pairs = ((block, sound.samplerate) for sound in self._sounds for block in self._read(sound))
        return gathered(uniform(pairs, self.sample_rate, self.channels, self.notes))

    def _read(self, sound: Forward) -> Iterator[Samples]:
        while self.stopped is None:
            # Filled with NaN, for soundfile does not say how much it had read when an error came up.
            block = np.full((_BLOCK, sound.channels), np.nan, np.float32)
            try:
                count = sound.buffer_read_into(block.data, dtype="float32")
            except (soundfile.SoundFileError, OSError) as error:
                self.stopped = plain_cause(error)
                empty = np.isnan(block).all(axis=1)
                count = int(np.argmax(empty)) if empty.any() else len(block)
            if count == 0:
                return
            yield without_garbage(block[:count]) if self.is_float else block[:count]

    def truncation(self, frames: int) -> str | None:
        if not self._whole:
            return "truncated: its Ogg stream breaks off without an end"
        announced = self._chunk.announced(frames, self.sample_rate) if self._chunk else None
        sound = self._sounds[0]
        if announced is None and sound.frames < _UNKNOWN_FRAMES and len(self._sounds) == 1:
            announced = sound.frames / self.sample_rate
        # Its own "psf_fseek failed" only repeats that the end came too early.
        why = self.stopped if self.stopped and "psf_" not in self.stopped else ""
        return truncation(frames / self.sample_rate, announced, why)


def plain_cause(error: Exception) -> str:
    """libsndfile's words, without the path, the prefixes and the full stop: "flac decoder lost sync"."""
    words = getattr(error, "error_string", None) or str(error)
    words = re.sub(r"^Error( opening .*?)? ?: ?", "", words).strip().rstrip(".")
    return words[:1].lower() + words[1:] if words[1:2].islower() else words


class Section(io.RawIOBase):
    """The bytes of an open file from `start` to `end`, as a file. Several may take turns."""

    def __init__(self, file: IO[bytes], start: int, end: int) -> None:
        super().__init__()
        self._file, self._start, self._length, self._position = file, start, end - start, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._length}[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._length - self._position)
        self._file.seek(self._start + self._position)
        content = self._file.read(left if size < 0 else min(size, left))
        self._position += len(content)
        return content

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)
