"""Counts of frames in MP3s, MP4s without their index, the length of ASF files."""

from __future__ import annotations

import io
import struct

import pytest

from mlxbatch.container_marks import asf_seconds, counted_frames, lacks_index

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


def asf(play: int, preroll: int, flags: int = 2, *, cut: int | None = None) -> bytes:
    """The front of an ASF file: its header, and the File Properties Object with what comes before its lengths."""
    head = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c") + bytes(14)
    properties = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365") + bytes(48)
    return (head + properties + struct.pack("<QQQI", play, play, preroll, flags))[:cut]


@pytest.mark.parametrize(
    ("content", "seconds"),
    [
        (asf(141_050_000, 3100), 11.005),
        (asf(141_050_000, 0), 14.105),
        (asf(0, 3100), None),
        (asf(141_050_000, 3100, flags=1), None),  # a broadcast: nobody knew
        (asf(141_050_000, 3100, cut=-1), None),
        (bytes(200) + asf(141_050_000, 3100), None),
        (b"", None),
    ],
)
def test_how_long_an_asf_file_plays(content: bytes, seconds: float | None) -> None:
    assert asf_seconds(io.BytesIO(content)) == (None if seconds is None else pytest.approx(seconds))
