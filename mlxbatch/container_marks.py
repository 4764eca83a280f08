"""What MP3, MP4 and ASF (WMA) files say of themselves that ffmpeg keeps to itself.

Sources: the Xing VBR header as LAME writes it, Fraunhofer's VBRI header, ISO/IEC 14496-12 (boxes of an
MP4), the Advanced Systems Format specification (3.2, File Properties Object).
"""

from __future__ import annotations

import os
import re
import struct
from typing import IO

_SEARCHED = 2048  # of the first frame of an MP3, which is at most 1441 bytes
_MOST_BOXES = 1000
_ASF_HEADER = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")
_ASF_FILE_PROPERTIES = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")
_ASF_SEARCHED = 1 << 16
_ASF_BROADCAST = 1  # a flag: the length was not known when the header was written


def counted_frames(file: IO[bytes]) -> int | None:
    """How many frames an open MP3 has by its first one, where that counts them; else a length is guessed at best."""
    file.seek(0)
    head = file.read(10)
    start = 0
    if head[:3] == b"ID3" and len(head) == 10:
        start = 10 + (head[6] << 21 | head[7] << 14 | head[8] << 7 | head[9])
    file.seek(start)
    content = file.read(_SEARCHED)
    if tag := re.search(rb"(?:Xing|Info)...(.)(.{4})", content, re.DOTALL):
        return int.from_bytes(tag[2], "big") if tag[1][0] & 1 else None  # a flag: whether there is a count
    tag = re.search(rb"VBRI.{10}(.{4})", content, re.DOTALL)
    return int.from_bytes(tag[1], "big") if tag else None


def asf_seconds(file: IO[bytes]) -> float | None:
    """How long an open ASF file plays by its header, which ffmpeg passes over where the file was cut off."""
    file.seek(0)
    head = file.read(_ASF_SEARCHED)
    at = head.find(_ASF_FILE_PROPERTIES)
    if not head.startswith(_ASF_HEADER) or at < 0 or len(head) < at + 92:
        return None
    play, _, preroll, flags = struct.unpack_from("<QQQI", head, at + 64)  # in 100 ns; sending time; in ms; flags
    seconds = play / 1e7 - preroll / 1e3
    return seconds if seconds > 0 and not flags & _ASF_BROADCAST else None


def lacks_index(file: IO[bytes]) -> str | None:
    """The cause where an open MP4 has no index, which most recorders write last; None for all else."""
    file.seek(4)
    if file.read(4) != b"ftyp":
        return None
    total, at = file.seek(0, os.SEEK_END), 0
    for _ in range(_MOST_BOXES):
        file.seek(at)
        header = file.read(16)
        size = int.from_bytes(header[:4], "big")
        if size == 1:
            size = int.from_bytes(header[8:16], "big")
        if header[4:8] == b"moov" and at + size <= total:
            return None
        at += size
        if size < 8 or at >= total:
            break
    return "its index (moov) is missing: the recording was cut off before its end"
