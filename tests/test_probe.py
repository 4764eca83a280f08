"""Headers, and every bad input with its exact words."""

from __future__ import annotations

import os
import socket
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from mlxbatch.errors import ItemError
from mlxbatch.probe import probe
from mlxbatch.types import Item


def item(path: Path) -> Item:
    return Item("id", path, Path(path.stem))


def wav(path: Path, seconds: float = 1.0, rate: int = 16000, channels: int = 1) -> Path:
    soundfile.write(path, np.zeros((round(seconds * rate), channels), np.float32), rate, subtype="PCM_16", format="WAV")
    return path


def refusal(path: Path) -> str:
    with pytest.raises(ItemError) as caught:
        probe(item(path))
    assert (caught.value.path, caught.value.stage) == (path, "probe")
    return caught.value.cause


def test_a_header_gives_seconds_rate_and_channels(tmp_path: Path) -> None:
    probed = probe(item(wav(tmp_path / "a.wav", 1.5, 8000, 2)))
    assert (probed.seconds, probed.sample_rate, probed.channels) == (1.5, 8000, 2)
    assert probed.item.source == tmp_path / "a.wav"


def test_zero_frames_are_a_valid_recording(tmp_path: Path) -> None:
    assert probe(item(wav(tmp_path / "a.wav", 0.0))).seconds == 0.0


def test_a_wrong_suffix_does_not_matter(tmp_path: Path) -> None:
    assert probe(item(wav(tmp_path / "really_wav.mp3"))).seconds == 1.0


@pytest.mark.skipif(sys.platform == "darwin", reason="this file system takes UTF-8 names only")
def test_a_name_that_is_no_utf8_is_opened(tmp_path: Path) -> None:
    source = wav(tmp_path / "a.wav").rename(tmp_path / os.fsdecode(b"caf\xe9.wav"))
    assert probe(item(source)).seconds == 1.0


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "a.wav").touch()
    assert refusal(tmp_path / "a.wav") == "empty file (0 bytes)"


def test_no_such_file(tmp_path: Path) -> None:
    assert refusal(tmp_path / "a.wav") == "no such file"


def test_a_directory(tmp_path: Path) -> None:
    assert refusal(tmp_path) == "a directory, not a file"


def test_a_pipe_is_refused_without_waiting_for_its_other_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.wav")
    assert refusal(tmp_path / "a.wav") == "a pipe, not a regular file"


def test_a_device() -> None:
    assert refusal(Path("/dev/null")) == "a device, not a regular file"


def test_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket may have 100 characters or so
    with socket.socket(socket.AF_UNIX) as endpoint:
        endpoint.bind("a.wav")
        assert refusal(Path("a.wav")) == "a socket, not a regular file"


def test_permission_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> int:  # tests may run as root, to whom nothing is denied
        raise PermissionError(13, "Permission denied")

    source = wav(tmp_path / "a.wav")
    monkeypatch.setattr(os, "open", denied)
    assert refusal(source) == "permission denied"


def test_text_is_no_audio(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_text("dear diary, " * 50)
    assert refusal(tmp_path / "a.wav") == "not an audio file that can be read: format not recognised"


def test_an_m4a_without_its_index_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "a.m4a").write_bytes(b"\0\0\0\x20ftypM4A " + bytes(500))
    expected = (
        "not an audio file that can be read: its index (moov) is missing: the recording was cut off before its end"
    )
    assert refusal(tmp_path / "a.m4a") == expected


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (bytes(20000), "format not recognised"),
        (b"\xff\xfb\x90\x00" + bytes(20000), "no sound found in it"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(900), "its content is a JPEG picture"),
        (b"\n<!DOCTYPE html><html>404</html>", "its content is a web page"),
        (b"%PDF-1.7 " + bytes(900), "its content is a PDF document"),
        (b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile:///etc/passwd\n", "format not recognised"),
        (b"ffconcat version 1.0\nfile other.wav\n", "format not recognised"),
    ],
)
def test_what_is_called_mp3_and_is_none(tmp_path: Path, content: bytes, cause: str) -> None:
    (tmp_path / "a.mp3").write_bytes(content)
    assert refusal(tmp_path / "a.mp3") == f"not an audio file that can be read: {cause}"


def test_a_wav_without_data(tmp_path: Path) -> None:
    fmt = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 16000, 32000, 2, 16)
    (tmp_path / "a.wav").write_bytes(b"RIFF" + struct.pack("<I", 4 + len(fmt)) + b"WAVE" + fmt)
    assert (
        refusal(tmp_path / "a.wav") == "not an audio file that can be read: error in WAV file. No 'data' chunk marker"
    )


def test_an_implausible_rate_is_refused(tmp_path: Path) -> None:
    content = bytearray(wav(tmp_path / "a.wav").read_bytes())
    content[24:28] = struct.pack("<I", 1)
    (tmp_path / "a.wav").write_bytes(content)
    assert refusal(tmp_path / "a.wav") == "not an audio file that can be read: its header says 1 Hz"


def test_a_flac_of_unknown_length_gets_an_estimate(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    soundfile.write(tmp_path / "a.flac", rng.uniform(-0.5, 0.5, 48000), 16000)
    content = bytearray((tmp_path / "a.flac").read_bytes())
    content[8 + 13] &= 0xF0  # the 36 bits of STREAMINFO that hold the number of samples
    content[8 + 14 : 8 + 18] = bytes(4)
    (tmp_path / "a.flac").write_bytes(content)
    assert 1.0 < probe(item(tmp_path / "a.flac")).seconds < 12.0
