"""What a file is by its first bytes, whatever it is called."""

from __future__ import annotations

from mlxbatch.chunks import DataChunk

# Formats with a signature of four bytes or more: no headerless recording begins so by chance.
_SOUND = (
    *(b"RIFF", b"RIFX", b"RF64", b"riff", b"FORM", b"fLaC", b"OggS", b".snd", b"dns.", b"caff", b"NIST", b"Creative"),
    *(
        b"ID3\x02",
        b"ID3\x03",
        b"ID3\x04",
        b"\x1aE\xdf\xa3",
        b"0&\xb2u",
        b"FLV\x01",
        b"#!AMR",
        b"wvpk",
        b"TTA1",
        b"MAC ",
    ),
)
_OTHER = {
    b"\xff\xd8\xff": "a JPEG picture",
    b"\x89PNG": "a PNG picture",
    b"GIF8": "a GIF picture",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a ZIP archive or an office document",
    b"\x1f\x8b\x08": "compressed by gzip",
    b"Rar!": "a RAR archive",
    b"7z\xbc\xaf": "a 7-Zip archive",
}
_MPEG_IN_WAV = (0x50, 0x55)


def is_signed(head: bytes) -> bool:
    """Whether the first 12 bytes are beyond doubt those of a sound or video file that has a header."""
    return head.startswith(_SOUND) or head[4:8] == b"ftyp"


def is_mpeg(head: bytes, chunk: DataChunk | None) -> bool:
    """Whether it is MPEG audio (MP3, MP2, ADTS), bare, behind an ID3 tag, or in a WAV."""
    if chunk is not None:
        return chunk.codec in _MPEG_IN_WAV
    return head[:3] == b"ID3" or (len(head) > 1 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0)


def other_content(head: bytes) -> str | None:
    """What the content is where it has nothing to do with sound: "a JPEG picture"."""
    text = head.lstrip().lower()
    if text.startswith((b"<!doctype ht", b"<html")):
        return "a web page"
    return next((kind for magic, kind in _OTHER.items() if head.startswith(magic)), None)
