"""Whether a second recording lies behind the first in one file, as `cat a.flac b.flac > c.flac` leaves it.

Decoders stop where the first one ends. Sources: RFC 9639 (a FLAC file begins with STREAMINFO, of 34 bytes), RIFF and
AIFF as in mlxbatch.chunks, Apple's "Core Audio Format Specification 1.0".
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import IO

from mlxbatch.chunks import data_chunk

NOTE = "a second recording lies behind the first in this file, and is not read: split the file"
_BEGINNINGS = {
    b"fLaC": re.compile(rb"fLaC[\x00\x80]\x00\x00\x22"),
    b"RIFF": re.compile(rb"RIFF.{4}WAVE", re.DOTALL),
    b"FORM": re.compile(rb"FORM.{4}AIF[FC]", re.DOTALL),
    b"caff": re.compile(rb"caff\x00\x01\x00\x00desc"),
}
_LONGEST = 12
_BLOCK = 1 << 20


def goes_on(path: Path) -> bool:
    """Whether another recording begins behind the first. Raises OSError."""
    with path.open("rb") as file:
        kind = file.read(4)
        if kind not in _BEGINNINGS:
            return False
        chunk = data_chunk(file)
        # Only of WAV and AIFF it is known where the first one ends; one that leaves it open is read to the file's end.
        end = chunk.end if chunk else len(kind)
        return end is not None and _begins(file, kind, end)


def _begins(file: IO[bytes], kind: bytes, start: int) -> bool:
    file.seek(start)
    tail = b""
    while block := file.read(_BLOCK):
        block = tail + block
        # The name is found much faster than the pattern.
        if kind in block and _BEGINNINGS[kind].search(block):
            return True
        tail = block[1 - _LONGEST :]
    return False
