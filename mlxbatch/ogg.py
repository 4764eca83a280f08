"""The links of an Ogg file: where each begins and ends, and whether it ends as it should.

libsndfile reads the first link of a chain (a radio recording, files put one behind the other) and says nothing of the
others; no decoder minds a stream that is cut off. Source: RFC 3533, "The Ogg Encapsulation Format Version 0".
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

_CAPTURE = b"OggS"
_FIRST, _LAST = 2, 4  # flags of a page: beginning and end of its stream
_HEADER = 27
_BLOCK = 65536


@dataclass(frozen=True, slots=True)
class Link:
    """Bytes from `start` to `end`. `whole`: each of its streams has its last page. `streams`: how many run beside."""

    start: int
    end: int
    whole: bool
    streams: int


def links(file: IO[bytes]) -> list[Link]:
    """The links of an open Ogg file, in their order; empty for every other file. Reads the pages' headers only."""
    found: list[Link] = []
    start, end, began, ended = 0, 0, set[int](), set[int]()
    heading = True  # the pages that begin the streams of a link come before all its others
    for at, flags, serial, whole, behind in _pages(file):
        if flags & _FIRST and not heading:
            found.append(Link(start, at, began <= ended, len(began)))
            start, began, ended = at, set(), set()
        heading, end = bool(flags & _FIRST), behind
        began.add(serial)
        if flags & _LAST and whole:
            ended.add(serial)
    return [*found, Link(start, end, began <= ended, len(began))] if began else []


def _pages(file: IO[bytes]) -> Iterator[tuple[int, int, int, bool, int]]:
    """(offset, flags, serial number, whether all of it is there, offset behind it) of each page; skips what is none."""
    total = file.seek(0, os.SEEK_END)
    at: int | None = 0
    if _at(file, 0, 4) != _CAPTURE:
        return
    while at is not None and at < total:
        header = _at(file, at, _HEADER)
        if header[:4] != _CAPTURE:
            at = _next_page(file, at + 1)
            continue
        if len(header) < _HEADER:
            return
        flags, serial = struct.unpack("<5xB8xI8xx", header[:_HEADER])
        lacing = file.read(header[26])
        end = at + _HEADER + header[26] + sum(lacing)
        yield at, flags, serial, len(lacing) == header[26] and end <= total, min(end, total)
        at = end


def _next_page(file: IO[bytes], at: int) -> int | None:
    file.seek(at)
    kept = b""
    while block := file.read(_BLOCK):
        where = (kept + block).find(_CAPTURE)
        if where >= 0:
            return at - len(kept) + where
        at += len(block)
        kept = (kept + block)[-3:]
    return None


def _at(file: IO[bytes], offset: int, count: int) -> bytes:
    file.seek(offset)
    return file.read(count)
