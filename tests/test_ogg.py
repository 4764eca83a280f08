"""Ogg files: chains of streams, and streams that break off."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from mlxbatch.audio import decode
from mlxbatch.ogg import links
from mlxbatch.probe import probe
from mlxbatch.types import Item

from .sounds import encoded, loudness, tone


def item(path: Path) -> Item:
    return Item("id", path, Path(path.stem))


def ogg(subtype: str, seconds: float = 2.0, rate: int = 48000, channels: int = 1, level: float = 0.5) -> bytes:
    file = io.BytesIO()
    samples = np.repeat(tone(seconds, rate, level=level)[:, None], channels, axis=1)
    soundfile.write(file, samples, rate, format="OGG", subtype=subtype)
    return file.getvalue()


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_the_links_of_a_chain(subtype: str) -> None:
    first, second = ogg(subtype), ogg(subtype, 3.0)
    found = links(io.BytesIO(first + second))
    assert [(link.start, link.end, link.whole, link.streams) for link in found] == [
        (0, len(first), True, 1),
        (len(first), len(first + second), True, 1),
    ]


@pytest.mark.parametrize("content", [b"", b"Ogg", b"RIFF" + bytes(100), b"OggS", b"OggS" + bytes(20)])
def test_other_files_have_none(content: bytes) -> None:
    assert links(io.BytesIO(content)) == []


@pytest.mark.parametrize("missing", [1, 30, 5000])
def test_a_stream_that_breaks_off_is_not_whole(missing: int) -> None:
    found = links(io.BytesIO(ogg("VORBIS", 5.0)[:-missing]))
    assert [link.whole for link in found] == [False]


def test_garbage_between_pages_is_skipped() -> None:
    content = ogg("VORBIS", 5.0)
    at = content.rindex(b"OggS")
    found = links(io.BytesIO(content[:at] + b"Ogg" * 30000 + content[at:]))
    assert [(link.end, link.whole) for link in found] == [(len(content) + 90000, True)]


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_all_links_are_decoded(tmp_path: Path, subtype: str) -> None:
    # libsndfile alone reads the first of them and says nothing.
    source = tmp_path / "a.ogg"
    source.write_bytes(ogg(subtype, 2.0) + ogg(subtype, 3.0) + ogg(subtype, 1.0))
    assert probe(item(source)).seconds == pytest.approx(6.0, abs=0.05)
    recording = decode(item(source))
    assert recording.seconds == pytest.approx(6.0, abs=0.05)
    assert (recording.truncated, recording.warnings) == (False, ())


@pytest.mark.parametrize(
    ("rate", "channels", "says"),
    [
        (24000, 1, "the sample rate changes from 48000 to 24000 at 2.00 s"),
        (48000, 2, "the number of channels changes from 1 to 2 at 2.00 s"),
    ],
)
def test_links_of_other_rates_and_channels(tmp_path: Path, rate: int, channels: int, says: str) -> None:
    source = tmp_path / "a.ogg"
    source.write_bytes(ogg("VORBIS", 2.0) + ogg("VORBIS", 3.0, rate, channels))
    recording = decode(item(source))
    assert recording.seconds == pytest.approx(5.0, abs=0.05)
    assert recording.warnings == (says,)
    assert loudness(recording.samples[0, 40000:70000]) == pytest.approx(0.5 / np.sqrt(2), rel=0.05)


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_a_cut_ogg_is_decoded_as_far_as_it_goes(tmp_path: Path, subtype: str) -> None:
    source = tmp_path / "a.ogg"
    content = ogg(subtype, 20.0)
    source.write_bytes(content[: len(content) // 2])
    recording = decode(item(source))
    assert 5.0 < recording.seconds < 11.0
    assert recording.truncated
    assert recording.warnings == ("truncated: its Ogg stream breaks off without an end",)


def test_a_cut_ogg_that_ffmpeg_reads(tmp_path: Path) -> None:
    source = encoded(tmp_path / "a.ogg", "flac", tone(20.0), container="ogg")
    assert not decode(item(source)).truncated
    content = source.read_bytes()
    source.write_bytes(content[: len(content) // 2])
    assert decode(item(source)).warnings[0] == "truncated: its Ogg stream breaks off without an end"


def test_sound_beside_a_video_is_found(tmp_path: Path) -> None:
    vorbis = ogg("VORBIS", 2.0)
    source = tmp_path / "a.ogv"
    # A second stream that begins beside it: as good as any video to libsndfile.
    foreign = b"OggS\0\x02" + bytes(8) + b"\x99\0\0\0" + bytes(8) + b"\x01\x08" + b"fishead\0"
    source.write_bytes(foreign + vorbis)
    assert links(io.BytesIO(foreign + vorbis))[0].streams == 2
    assert decode(item(source)).seconds == pytest.approx(2.0, abs=0.05)
