"""What a recording's header says, without decoding it; and the one place where audio files are opened."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import soundfile

from mlxbatch.chunks import DataChunk, Mended, data_chunk
from mlxbatch.errors import ItemError, item_stage
from mlxbatch.mpeg import Measured, unmeasured
from mlxbatch.types import Item, Probed

# Below this no speech is left, and a header that says 1 Hz would be resampled to 16,000 times its size.
_LOWEST_RATE = 1000
_UNKNOWN_FRAMES = 2**62  # libsndfile says SF_COUNT_MAX where the header leaves the length open
_UNREADABLE = "not an audio file that can be read"
_NOT_OURS = (
    ".m4a .m4b .aac .mp4 .m4v .mov .mkv .mka .webm .wma .wmv .avi .amr .awb .3gp .3g2 .ac3 .spx .ts .wv .tta .ape "
    ".g722 .g726 .g729 .ulaw .alaw .ul .al .sln"
)
_NEEDS_CONVERSION = frozenset(_NOT_OURS.split())


class Forward(soundfile.SoundFile):  # type: ignore[misc]  # soundfile has no type hints
    """A sound file that is read from front to back.

    soundfile seeks to where it is after each block it reads. In an MPEG stream that throws away the bits a frame
    borrows from those before it: a click, or noise, at each block.
    """

    def seekable(self) -> bool:
        return False


def probe(item: Item) -> Probed:
    """Seconds, sample rate (Hz) and channels as the header has them; 0 seconds is a valid, empty recording.

    Raises ItemError of stage "probe". Cut-off WAV and AIFF files count what is there; where the length stands
    nowhere (a streamed FLAC) it is an estimate: one byte per sample.
    """
    with open_sound(item.source, "probe") as (sound, _):
        frames = sound.frames
        if frames >= _UNKNOWN_FRAMES:
            frames = item.source.stat().st_size // sound.channels
        return Probed(item, frames / sound.samplerate, sound.samplerate, sound.channels)


def has_known_length(sound: Forward) -> bool:
    return bool(sound.frames < _UNKNOWN_FRAMES)


@contextmanager
def open_sound(path: Path, stage: str) -> Iterator[tuple[Forward, DataChunk | None]]:
    """An open sound file, and its data chunk where it is a WAV or AIFF. Raises ItemError of the given stage."""
    with item_stage(path, stage), _open_regular(path, stage) as file:
        chunk = data_chunk(file)
        try:
            sound = Forward(_readable(path, file, chunk))
        except soundfile.SoundFileError as error:
            raise ItemError(path, stage, _unreadable(path, error)) from error
        with sound:
            if sound.samplerate < _LOWEST_RATE:
                raise ItemError(path, stage, f"{_UNREADABLE}: its header says {sound.samplerate} Hz")
            yield sound, chunk


def _readable(path: Path, file: IO[bytes], chunk: DataChunk | None) -> object:
    """What libsndfile is to read: the file, or a view of it with the length that its header lacks."""
    if chunk is not None and chunk.claimed is None:
        return Mended(file, chunk)
    if chunk is None and (stream := unmeasured(file)) is not None:
        return Measured(file, stream)
    # By its name where possible: libsndfile knows headerless formats (.gsm, .vox) by their suffix only. As bytes,
    # since soundfile cannot encode names that are no UTF-8.
    return os.fsencode(path)


def plain_cause(error: Exception) -> str:
    """libsndfile's words, without the path, the prefixes and the full stop: "flac decoder lost sync"."""
    words = getattr(error, "error_string", None) or str(error)
    words = re.sub(r"^Error( opening '.*')? ?: ?", "", words).strip().rstrip(".")
    return words[:1].lower() + words[1:] if words[1:2].islower() else words


def _open_regular(path: Path, stage: str) -> IO[bytes]:
    """Open for reading; refuses all but regular files with content, and never waits for a pipe's other end."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        causes: dict[type[OSError], str] = {FileNotFoundError: "no such file", PermissionError: "permission denied"}
        cause = causes.get(type(error)) or _kind_of(path) or error.strerror or str(error)
        raise ItemError(path, stage, cause) from error
    status = os.fstat(descriptor)
    refusal = _kind(status.st_mode) or ("empty file (0 bytes)" if status.st_size == 0 else None)
    if refusal is not None:
        os.close(descriptor)
        raise ItemError(path, stage, refusal)
    return cast("IO[bytes]", os.fdopen(descriptor, "rb"))


def _kind_of(path: Path) -> str | None:
    try:
        return _kind(path.stat().st_mode)
    except OSError:
        return None


def _kind(mode: int) -> str | None:
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISDIR(mode):
        return "a directory, not a file"
    names = ((stat.S_ISFIFO, "pipe"), (stat.S_ISSOCK, "socket"), (stat.S_ISCHR, "device"), (stat.S_ISBLK, "device"))
    return next((f"a {name}, not a regular file" for test, name in names if test(mode)), "not a regular file")


def _unreadable(path: Path, error: soundfile.SoundFileError) -> str:
    # Code 7 is libsndfile's word for "no such file": of one that is open here, it means an MPEG decoder in despair.
    cause = "no sound found in it" if getattr(error, "code", 0) == 7 else plain_cause(error)
    hint = "; convert it to WAV, FLAC or Ogg first" if path.suffix.lower() in _NEEDS_CONVERSION else ""
    return f"{_UNREADABLE}: {cause}{hint}"
