"""What AU, W64, CAF and NIST headers claim, and cut files of all that libsndfile shortens without a word."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest
import soundfile

from mlxbatch.audio import decode
from mlxbatch.header_sizes import sound_size
from mlxbatch.probe import probe
from mlxbatch.types import Item

from .sounds import tone


def item(path: Path) -> Item:
    return Item("id", path, Path(path.stem))


def content(form: str, seconds: float = 2.0) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, tone(seconds), 16000, format=form, subtype="PCM_16")
    return file.getvalue()


@pytest.mark.parametrize("form", ["AU", "W64", "CAF", "NIST"])
def test_a_whole_file_has_what_it_claims(form: str) -> None:
    size = sound_size(io.BytesIO(content(form)))
    assert size is not None
    assert (size.claimed, size.missing) == (64000, 0)


@pytest.mark.parametrize("form", ["AU", "W64", "CAF", "NIST", "SVX", "WAV", "WAVEX", "AIFF", "RF64"])
def test_half_a_file_is_marked_truncated(tmp_path: Path, form: str) -> None:
    source = tmp_path / "a"
    whole = content(form)
    source.write_bytes(whole)
    assert not decode(item(source)).truncated
    source.write_bytes(whole[:-32000])
    recording = decode(item(source))
    assert recording.seconds == pytest.approx(1.0, abs=0.1)
    assert recording.truncated
    assert recording.warnings[0].endswith(" s decoded of the 2.00 s in its header")
    assert probe(item(source)).seconds == pytest.approx(1.0, abs=0.1)


def test_sizes_that_were_left_open_claim_nothing(tmp_path: Path) -> None:
    au = bytearray(content("AU"))
    au[8:12] = b"\xff" * 4
    caf = bytearray(content("CAF"))
    at = caf.index(b"data") + 4
    caf[at : at + 8] = b"\xff" * 8
    for name, streamed in (("a.au", au), ("a.caf", caf)):
        (tmp_path / name).write_bytes(streamed)
        recording = decode(item(tmp_path / name))
        assert recording.seconds == pytest.approx(2.0, abs=0.1)
        assert not recording.truncated


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b".snd",
        b"riff" + bytes(36),
        b"riff" + bytes(100),
        b"caff" + bytes(7),
        b"caff\0\1\0\0" + b"free" + struct.pack(">Q", 2**64 - 1) + bytes(50),
        b"NIST_1A\n   1024\nsample_count -i many\nend_head\n",
        b"RIFF" + bytes(100),
    ],
)
def test_damaged_headers_say_nothing(damaged: bytes) -> None:
    assert sound_size(io.BytesIO(damaged)) is None
