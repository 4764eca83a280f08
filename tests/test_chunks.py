"""Sizes in WAV and AIFF headers: claimed, placeholder, wrapped."""

from __future__ import annotations

import io
import struct

import pytest

from mlxbatch.chunks import Mended, data_chunk


def riff(
    size: int, samples: bytes, *, order: str = "<", riff_size: int | None = None, front: bytes = b""
) -> io.BytesIO:
    magic = b"RIFF" if order == "<" else b"RIFX"
    fmt = struct.pack(f"{order}4sIHHIIHH", b"fmt ", 16, 1, 1, 16000, 32000, 2, 16)
    body = b"WAVE" + front + fmt + struct.pack(f"{order}4sI", b"data", size) + samples
    return io.BytesIO(struct.pack(f"{order}4sI", magic, len(body) if riff_size is None else riff_size) + body)


@pytest.mark.parametrize("order", ["<", ">"])
def test_claimed_and_present(order: str) -> None:
    chunk = data_chunk(riff(100, bytes(60), order=order))
    assert chunk is not None
    assert (chunk.claimed, chunk.present, chunk.missing, chunk.byte_rate) == (100, 60, 40, 32000)


def test_chunks_before_the_data_are_passed_with_their_padding() -> None:
    chunk = data_chunk(riff(10, bytes(10), front=struct.pack("<4sI", b"LIST", 3) + b"abc\0"))
    assert chunk is not None
    assert chunk.missing == 0


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0xFFFFFFFF - 36, 0x7FFFF000, 0x7FFFFFFF, 0x80000000])
def test_placeholders_of_recorders_that_stream_claim_nothing(size: int) -> None:
    chunk = data_chunk(riff(size, bytes(60)))
    assert chunk is not None
    assert chunk.claimed is None


@pytest.mark.parametrize(("riff_size", "claimed"), [(0, None), (36, None), (0xFFFFFFFF, None), (1000, 0)])
def test_a_size_of_zero_is_meant_only_where_the_riff_covers_what_follows(riff_size: int, claimed: int | None) -> None:
    chunk = data_chunk(riff(0, bytes(60), riff_size=riff_size))
    assert chunk is not None
    assert chunk.claimed == claimed


def test_an_empty_recording_claims_zero() -> None:
    chunk = data_chunk(riff(0, b"", riff_size=36))
    assert chunk is not None
    assert (chunk.claimed, chunk.missing) == (0, 0)


@pytest.mark.parametrize(("size", "claimed"), [(100, 100), (0, None), (2**64 - 1, None)])
def test_rf64_has_its_size_in_ds64(size: int, claimed: int | None) -> None:
    ds64 = struct.pack("<4sIQQQI", b"ds64", 28, 0, size, 0, 0)
    file = io.BytesIO(b"RF64\xff\xff\xff\xffWAVE" + ds64 + struct.pack("<4sI", b"data", 0xFFFFFFFF) + bytes(60))
    chunk = data_chunk(file)
    assert chunk is not None
    assert (chunk.claimed, chunk.present) == (claimed, 60)


def test_aiff() -> None:
    file = io.BytesIO(b"FORM\0\0\0\0AIFF" + struct.pack(">4sI", b"SSND", 108) + bytes(60))
    chunk = data_chunk(file)
    assert chunk is not None
    assert chunk.missing == 48


@pytest.mark.parametrize(
    "content", [b"", b"RIFF", b"RIFF\0\0\0\0AVI ", b"OggS" + bytes(50), b"RIFF\xff\xff\xff\xffWAVEdat"]
)
def test_other_files_have_none(content: bytes) -> None:
    assert data_chunk(io.BytesIO(content)) is None


@pytest.mark.parametrize("step", [1, 3, 7, 4096])
def test_a_mended_file_differs_in_its_size_alone(step: int) -> None:
    file = riff(0, bytes(range(60)), riff_size=0)
    chunk = data_chunk(file)
    assert chunk is not None
    mended, whole = Mended(file, chunk), bytearray()
    while part := mended.read(step):
        whole += part
    assert bytes(whole) == riff(60, bytes(range(60)), riff_size=0).getvalue()
