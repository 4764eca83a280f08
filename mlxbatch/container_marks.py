"""What MP3 and MP4 files say of themselves that ffmpeg keeps to itself.

Sources: the Xing VBR header as LAME writes it, Fraunhofer's VBRI header, ISO/IEC 14496-12 (boxes of an MP4).
"""

from __future__ import annotations

import os
import re
from typing import IO

_SEARCHED = 2048  # of the first frame of an MP3, which is at most 1441 bytes
_MOST_BOXES = 1000


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
