"""Files known by their first bytes."""

from __future__ import annotations

import pytest

from mlxbatch.chunks import DataChunk
from mlxbatch.signatures import is_mpeg, is_signed, other_content


@pytest.mark.parametrize(
    "head", [b"RIFF....WAVE", b"fLaC", b"OggS", b"....ftypM4A ", b"\x1aE\xdf\xa3", b"ID3\x03", b"caff"]
)
def test_headers_that_are_beyond_doubt(head: bytes) -> None:
    assert is_signed(head)


@pytest.mark.parametrize("head", [b"", b"\xff\xff\xff\xff", b"\xff\xfb\x90\x00", b"\xd5" * 12, b"ID3", b"RIF"])
def test_what_bare_samples_may_begin_with(head: bytes) -> None:
    assert not is_signed(head)


@pytest.mark.parametrize(
    ("head", "codec", "expected"),
    [
        (b"\xff\xfb\x90\x00", None, True),
        (b"\xff\xf1\x50\x80", None, True),  # ADTS
        (b"ID3\x04", None, True),
        (b"fLaC", None, False),
        (b"\xff", None, False),
        (b"RIFF", 0x55, True),
        (b"RIFF", 0x50, True),
        (b"RIFF", 1, False),
    ],
)
def test_mpeg_audio(head: bytes, codec: int | None, expected: bool) -> None:
    chunk = None if codec is None else DataChunk(100, 100, codec=codec)
    assert is_mpeg(head, chunk) is expected


def test_what_is_no_sound_at_all() -> None:
    assert other_content(b"\xff\xd8\xff\xe1") == "a JPEG picture"
    assert other_content(b"  <HTML><body>") == "a web page"
    assert other_content(b"RIFF") is None
