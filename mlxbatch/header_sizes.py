"""What the headers of Sun AU, Sony Wave64, Apple CAF and NIST Sphere files claim of their sound.

libsndfile shortens all of them to the bytes that are there without a word. Sources: the manual page audio(4) of SunOS
(AU), Sony "Wave64 file format", Apple "Core Audio Format Specification 1.0", Sphere's header as NIST's tools write it.
"""

from __future__ import annotations

import os
import re
import struct
from typing import IO

from mlxbatch.chunks import DataChunk

_W64_DATA = b"data" + bytes.fromhex("f3acd3118cd100c04f8edb8a")
_OPEN_32, _OPEN_64 = 2**32 - 1, 2**64 - 1  # "as much as there is": streamed
_MOST_CHUNKS = 10_000


def sound_size(file: IO[bytes]) -> DataChunk | None:
    """What an open AU, W64, CAF or NIST file claims; None for all others, and where the header breaks off."""
    total = file.seek(0, os.SEEK_END)
    file.seek(0)
    head = file.read(1024)
    readers = {b".snd": _sun, b"riff": _wave64, b"caff": _core_audio, b"NIST": _sphere}
    reader = readers.get(head[:4])
    return reader(file, head, total) if reader else None


def _sun(file: IO[bytes], head: bytes, total: int) -> DataChunk | None:
    if len(head) < 12:
        return None
    at, size = struct.unpack(">II", head[4:12])
    return DataChunk(None if size == _OPEN_32 else size, max(0, total - at))


def _wave64(file: IO[bytes], head: bytes, total: int) -> DataChunk | None:
    """Chunks of a GUID, a size that counts its own 24 bytes, and content, at multiples of 8."""
    at = 40
    for _ in range(_MOST_CHUNKS):
        file.seek(at)
        header = file.read(24)
        if len(header) < 24:
            return None
        size = struct.unpack("<Q", header[16:])[0]
        if header[:16] == _W64_DATA:
            return DataChunk(max(0, size - 24) or None, total - at - 24)
        at += max(24, size + 7 & ~7)
        if at >= total:
            return None
    return None


def _core_audio(file: IO[bytes], head: bytes, total: int) -> DataChunk | None:
    at = 8
    for _ in range(_MOST_CHUNKS):
        file.seek(at)
        header = file.read(12)
        if len(header) < 12:
            return None
        size = struct.unpack(">4xQ", header)[0]
        if header[:4] == b"data":  # behind a count of edits, four bytes
            return DataChunk(None if size == _OPEN_64 else max(0, size - 4), max(0, total - at - 16))
        at += 12 + size
        if at >= total:
            return None
    return None


def _sphere(file: IO[bytes], head: bytes, total: int) -> DataChunk | None:
    """Fields as text, one a line: `sample_count -i 16000`. Compressed ones (shorten) have no size of their own."""
    fields = dict(re.findall(rb"^(\w+) -[is]\d* (\S+)", head, re.MULTILINE))
    start = head[8:16].strip()
    try:
        size = int(fields[b"sample_count"]) * int(fields[b"channel_count"]) * int(fields[b"sample_n_bytes"])
        compressed = b"," in fields.get(b"sample_coding", b"")
        return None if compressed else DataChunk(size, max(0, total - int(start)))
    except (KeyError, ValueError):
        return None
