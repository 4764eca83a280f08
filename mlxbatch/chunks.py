"""What the header of a WAV, AIFF or 8SVX file claims of its sound, against the bytes that are there.

libsndfile shortens what it reads to the bytes that are there without a word, and reads nothing where a recorder
crashed before it filled in the sizes. Sources: Microsoft/IBM "Multimedia Programming Interface and Data Specifications
1.0" (RIFF, RIFX), EBU Tech 3306 (RF64), Apple "Audio Interchange File Format" 1.3 (AIFF).
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import IO

_FORMS = (b"WAVE", b"AIFF", b"AIFC", b"8SVX", b"16SV")
_MOST_CHUNKS = 10_000  # of a file of zeros, each eight bytes are a chunk
_SIZE_LIMIT = 2**32  # a RIFF size has 32 bits: recorders that write on beyond it wrap around


@dataclass(frozen=True, slots=True)
class DataChunk:
    """The chunk that holds the samples. Sizes in bytes; `claimed` is None where the header leaves the size open.

    `byte_rate` is the header's bytes per second (0: not said), `codec` the format tag of a WAV (0: none). `size_at` and
    `size_format` tell where a size stands that may have to be mended, `at` where the samples begin.
    """

    claimed: int | None
    present: int
    byte_rate: int = 0
    codec: int = 0
    size_at: int = 0
    size_format: str = ""
    at: int = 0

    @property
    def missing(self) -> int:
        return max(0, (self.claimed or 0) - self.present)

    @property
    def end(self) -> int | None:
        """Where the samples end by the header; None where it leaves the size open."""
        return None if self.claimed is None else self.at + self.claimed

    @property
    def is_open(self) -> bool:
        """Whether libsndfile has to be told the size, which the header leaves open."""
        return self.claimed is None and bool(self.size_format)

    def announced(self, frames: int, sample_rate: int) -> float | None:
        """Seconds that the header announces, by the `frames` that the bytes present came to; None: just these.

        Infinite where nothing is there to go by.
        """
        if not self.missing:
            return None
        claimed = self.claimed or 0
        if self.present and frames:
            return frames * claimed / self.present / sample_rate
        return claimed / self.byte_rate if self.byte_rate else float("inf")


def data_chunk(file: IO[bytes]) -> DataChunk | None:
    """The data chunk of an open RIFF, RIFX, RF64, AIFF or 8SVX file; None for all others, and where it has none."""
    total = file.seek(0, os.SEEK_END)
    file.seek(0)
    head = file.read(12)
    order = {b"RIFF": "<", b"RF64": "<", b"RIFX": ">", b"FORM": ">"}.get(head[:4])
    if order is None or head[8:] not in _FORMS:
        return None
    riff_end = 8 + struct.unpack(f"{order}I", head[4:8])[0]
    codec, byte_rate, long_size, long_size_at = 0, 0, None, 0
    for name, size, at in islice(_chunks(file, order, total), _MOST_CHUNKS):
        if name == b"fmt " and size >= 16:
            codec, byte_rate = struct.unpack(f"{order}H6xI", _at(file, at, 12))
        elif name == b"ds64" and size >= 16:
            long_size, long_size_at = struct.unpack("<8xQ", _at(file, at, 16))[0], at + 8
        elif name in (b"data", b"SSND", b"BODY"):
            if long_size is not None:
                claimed = _claim(long_size, total - at, covered=False, wide=True)
                return DataChunk(claimed, total - at, byte_rate, codec, long_size_at, "<Q", at)
            claimed = _claim(size, total - at, covered=at < riff_end < _SIZE_LIMIT - 4096)
            return DataChunk(claimed, total - at, byte_rate, codec, at - 4, f"{order}I", at)
    return None


def _claim(size: int, present: int, *, covered: bool, wide: bool = False) -> int | None:
    """The size that the header means, or None for a placeholder of a recorder that streamed, crashed or wrapped.

    Placeholders in the wild: 0, all ones (less the header's size), 2 GiB less a little (SoX and arecord into a pipe).
    A size of 0 is meant where the file's own size `covered` what follows: further chunks, and no sound.
    """
    if size == 0:
        return None if present and not covered else 0
    if wide:
        return None if size >= 2**63 else size
    if size >= _SIZE_LIMIT - 4096 or (0x7FFFF000 <= size <= 0x80000000 and present < size):
        return None
    return None if present >= _SIZE_LIMIT else size


def _chunks(file: IO[bytes], order: str, total: int) -> Iterator[tuple[bytes, int, int]]:
    """(name, size, offset of the content) of each chunk, as far as they can be followed."""
    at = 12
    while at + 8 <= total:
        name, size = struct.unpack(f"{order}4sI", _at(file, at, 8))
        yield name, size, at + 8
        at += 8 + size + size % 2


def _at(file: IO[bytes], offset: int, count: int) -> bytes:
    file.seek(offset)
    return file.read(count).ljust(count, b"\0")


class Mended(io.RawIOBase):
    """The file as it would be had its recorder filled in the data size: one field is replaced while it is read."""

    def __init__(self, file: IO[bytes], chunk: DataChunk) -> None:
        super().__init__()
        self._file = file
        limit = 2 ** (8 * struct.calcsize(chunk.size_format)) - 1
        self._field = struct.pack(chunk.size_format, min(chunk.present, limit))
        self._at = chunk.size_at
        file.seek(0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        start = self._file.tell()
        content = self._file.read(size)
        if start >= self._at + len(self._field) or start + len(content) <= self._at:
            return content
        patched = bytearray(content)
        for i, byte in enumerate(self._field, self._at - start):
            if 0 <= i < len(patched):
                patched[i] = byte
        return bytes(patched)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        self._file.close()
        super().close()
