"""Counts of frames in MP3s, and MP4s without their index."""

from __future__ import annotations

import io
import struct

import pytest

from mlxbatch.container_marks import counted_frames, lacks_index

HEAD = b"\xff\xfb\x90\x00" + bytes(32)
XING = struct.pack(">II", 1, 423)
MISSING = "its index (moov) is missing: the recording was cut off before its end"


def box(name: bytes, size: int, *, claimed: int | None = None) -> bytes:
    return struct.pack(">I4s", size if claimed is None else claimed, name) + bytes(size - 8)


@pytest.mark.parametrize(
    ("content", "frames"),
    [
        (HEAD + b"Xing" + XING, 423),
        (HEAD + b"Info" + XING, 423),
        (b"ID3\x04\0\0\0\0\x20\x00" + bytes(4096) + HEAD + b"Xing" + XING, 423),
        (HEAD + b"VBRI" + bytes(10) + struct.pack(">I", 99), 99),
        (HEAD + b"Xing" + struct.pack(">II", 2, 423), None),  # bytes are counted, frames are not
        (HEAD + b"Xing", None),
        (HEAD + bytes(400), None),
        (b"", None),
    ],
)
def test_how_many_frames_an_mp3_counts(content: bytes, frames: int | None) -> None:
    assert counted_frames(io.BytesIO(content)) == frames


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (box(b"ftyp", 32) + box(b"moov", 500) + box(b"mdat", 900), None),
        (box(b"ftyp", 32) + box(b"mdat", 900) + box(b"moov", 500), None),
        (box(b"ftyp", 32) + box(b"mdat", 900), MISSING),
        (box(b"ftyp", 32) + box(b"mdat", 900, claimed=5000), MISSING),
        (box(b"ftyp", 32) + box(b"mdat", 900) + box(b"moov", 300, claimed=500), MISSING),
        (box(b"ftyp", 32) + struct.pack(">I4sQ", 1, b"mdat", 916) + bytes(900) + box(b"moov", 100), None),
        (box(b"ftyp", 32) + box(b"mdat", 900, claimed=0), MISSING),
        (box(b"free", 32) + box(b"mdat", 900), None),
        (b"", None),
    ],
)
def test_an_mp4_without_its_index(content: bytes, cause: str | None) -> None:
    assert lacks_index(io.BytesIO(content)) == cause
