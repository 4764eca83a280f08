"""The true length of an MPEG audio stream whose header does not say it.

Without a Xing or Info frame libsndfile (mpg123) guesses the length from the first frame's bit rate, and reads no
further than its guess: of a recording with a variable bit rate it can lose most without a word. Walking the frame
headers gives the count, and a made-up Xing frame in front tells the decoder. Sources: ISO/IEC 11172-3 and 13818-3
(frame header), the Xing VBR header as LAME writes it.
"""

from __future__ import annotations

import io
import os
import struct
from dataclasses import dataclass
from typing import IO

# Bit rates in kbit/s by [MPEG version 1][layer], and by version 2 and 2.5 for layer I and for the other two.
_V1 = {
    1: (0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    2: (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    3: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
}
_V2_LAYER_1 = (0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256)
_V2_LAYER_23 = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_RATES = (44100, 48000, 32000)
_SEARCHED = 65536  # mpg123 looks for the first frame as far as this


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame header: sizes in bytes, `samples` per channel, `side` the bytes between header and data (layer III)."""

    version: int
    layer: int
    rate: int
    size: int
    samples: int
    side: int


@dataclass(frozen=True, slots=True)
class Stream:
    """Where the first frame stands, how many frames follow, and the first frame's four header bytes."""

    start: int
    frames: int
    head: bytes
    first: Frame

    @property
    def seconds(self) -> float:
        return self.frames * self.first.samples / self.first.rate


def unmeasured(file: IO[bytes]) -> Stream | None:
    """The stream of an open MPEG layer III file that does not tell its own length; None for every other file.

    Reads such a file once from front to back, and the first 64 KiB of others. Garbage between frames is skipped.
    """
    start = _after_tag(file)
    file.seek(start)
    content = file.read(_SEARCHED)
    at = _next_frame(content, 0) if start or content[:1] == b"\xff" else None
    if at is None:
        return None
    head = content[at : at + 4]
    first = parse(head)
    if first is None or first.layer != 3 or _tells_length(content[at:], first):
        return None
    return Stream(start + at, _count(content + file.read(), at), head, first)


def _tells_length(content: bytes, first: Frame) -> bool:
    """Whether the first frame is a Xing, Info or (Fraunhofer) VBRI header instead of sound."""
    tag = 4 + first.side
    return content[tag : tag + 4] in (b"Xing", b"Info") or content[36:40] == b"VBRI"


def parse(head: bytes) -> Frame | None:
    """A frame header's four bytes, or None where they are none (free-format streams count as none)."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return None
    version = {0: 25, 2: 2, 3: 1}.get(head[1] >> 3 & 3)
    layer = 4 - (head[1] >> 1 & 3)
    rate_index, bit_rate_index = head[2] >> 2 & 3, head[2] >> 4
    if version is None or layer == 4 or rate_index == 3 or bit_rate_index in (0, 15):
        return None
    rates = _V1[layer] if version == 1 else _V2_LAYER_1 if layer == 1 else _V2_LAYER_23
    rate = _RATES[rate_index] // {1: 1, 2: 2, 25: 4}[version]
    bit_rate, padding = rates[bit_rate_index] * 1000, head[2] >> 1 & 1
    samples = 384 if layer == 1 else 576 if layer == 3 and version != 1 else 1152
    size = (12 * bit_rate // rate + padding) * 4 if layer == 1 else samples // 8 * bit_rate // rate + padding
    mono = head[3] >> 6 == 3
    side = (17 if mono else 32) if version == 1 else (9 if mono else 17)
    return Frame(version, layer, rate, size, samples, side)


def _after_tag(file: IO[bytes]) -> int:
    """The offset behind an ID3v2 tag (its size has 7 bits a byte)."""
    file.seek(0)
    head = file.read(10)
    if head[:3] != b"ID3" or len(head) < 10:
        return 0
    size = head[6] << 21 | head[7] << 14 | head[8] << 7 | head[9]
    return 10 + size + (10 if head[5] & 0x10 else 0)


def _next_frame(content: bytes, at: int) -> int | None:
    """The next offset where two frames follow each other: a lone sync pattern may be chance."""
    while (at := content.find(b"\xff", at)) >= 0:
        frame = parse(content[at : at + 4])
        if frame is not None and parse(content[at + frame.size : at + frame.size + 4]) is not None:
            return at
        at += 1
    return None


def _count(content: bytes, at: int) -> int:
    count = 0
    while at < len(content):
        frame = parse(content[at : at + 4])
        if frame is not None:
            count += 1
            at += frame.size
        elif (following := _next_frame(content, at)) is not None:
            at = following
        else:
            break
    return count


class Measured(io.RawIOBase):
    """The file from its first frame on, behind a Xing frame that tells the count of frames."""

    def __init__(self, file: IO[bytes], stream: Stream) -> None:
        super().__init__()
        self._file, self._start, self._position = file, stream.start, 0
        tag = b"Xing" + struct.pack(">II", 1, stream.frames)
        self._front = (stream.head + bytes(stream.first.side) + tag).ljust(stream.first.size, b"\0")
        self._length = len(self._front) + file.seek(0, os.SEEK_END) - stream.start

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
        if size < 0:
            size = max(0, self._length - self._position)
        content = self._front[self._position : self._position + size]
        if len(content) < size:
            self._file.seek(self._start + self._position + len(content) - len(self._front))
            content += self._file.read(size - len(content))
        self._position += len(content)
        return content

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)
