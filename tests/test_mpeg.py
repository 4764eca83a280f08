"""MPEG streams that do not tell their length: counted by their frames."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from mlxbatch.audio import decode
from mlxbatch.mpeg import Measured, parse, unmeasured
from mlxbatch.probe import probe
from mlxbatch.types import Item

SECONDS, RATE = 12, 44100


@pytest.fixture(scope="module")
def varied() -> bytes:
    """A variable bit rate: silence, then noise, so that the first frame's rate says nothing about the rest."""
    rng = np.random.default_rng(0)
    samples = np.concatenate([np.zeros(4 * RATE), rng.normal(0, 0.2, 8 * RATE)])
    file = io.BytesIO()
    soundfile.write(file, samples, RATE, format="MP3", bitrate_mode="VARIABLE")
    return file.getvalue()


def headless(content: bytes) -> bytes:
    """Without the Xing frame, as a cut or a streamed file is."""
    frame = parse(content[:4])
    assert frame is not None
    return content[frame.size :]


@pytest.mark.parametrize("front", [b"", b"ID3\x04\0\0\0\0\x01\x00" + bytes(128)])
def test_the_frames_of_a_headless_stream_are_counted(varied: bytes, front: bytes) -> None:
    stream = unmeasured(io.BytesIO(front + headless(varied)))
    assert stream is not None
    assert stream.start == len(front)
    assert stream.seconds == pytest.approx(SECONDS, abs=0.1)


def test_streams_that_tell_their_length_are_left_alone(varied: bytes) -> None:
    assert unmeasured(io.BytesIO(varied)) is None


@pytest.mark.parametrize("content", [b"", b"RIFF" + bytes(100), b"\xff" * 1000, b"\xff\xf1\x50\x80" * 300, b"ID3"])
def test_other_content_is_no_stream(content: bytes) -> None:
    assert unmeasured(io.BytesIO(content)) is None


def test_garbage_between_frames_is_skipped(varied: bytes) -> None:
    content = headless(varied)
    half = next(i for i in range(len(content) // 2, len(content)) if parse(content[i : i + 4]))
    whole, broken = (
        unmeasured(io.BytesIO(content)),
        unmeasured(io.BytesIO(content[:half] + bytes(999) + content[half:])),
    )
    assert whole is not None
    assert broken is not None
    assert abs(whole.frames - broken.frames) <= 3


def test_a_guess_too_short_does_not_cut_the_recording(varied: bytes, tmp_path: Path) -> None:
    # The tag itself wiped out: its frame then is the "first frame" that the guess comes from.
    wiped = varied.replace(b"Xing", bytes(4))
    path = tmp_path / "a.mp3"
    path.write_bytes(wiped)
    guess = soundfile.info(path).duration
    assert abs(guess - SECONDS) > 1, "the premise: libsndfile guesses wrongly"
    item = Item("id", path, Path("a"))
    assert probe(item).seconds == pytest.approx(SECONDS, abs=0.1)
    recording = decode(item)
    assert recording.seconds == pytest.approx(SECONDS, abs=0.1)
    assert (recording.truncated, recording.warnings) == (False, ())


def test_the_view_can_be_read_from_anywhere(varied: bytes) -> None:
    file = io.BytesIO(headless(varied))
    stream = unmeasured(file)
    assert stream is not None
    view = Measured(file, stream)
    whole = view.read()
    assert whole.endswith(headless(varied))
    assert len(whole) == view.seek(0, 2)
    for start in (0, 30, stream.first.size - 2, stream.first.size + 5):
        view.seek(start)
        assert view.read(10) == whole[start : start + 10]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"\xff\xfb\x90\x00", (1, 3, 44100, 417, 1152, 32)),  # MPEG 1 layer III, 128 kbit/s
        (b"\xff\xfb\x92\xc0", (1, 3, 44100, 418, 1152, 17)),  # padded, mono
        (b"\xff\xf3\x40\xc0", (2, 3, 22050, 104, 576, 9)),  # MPEG 2 layer III, 32 kbit/s
        (b"\xff\xe3\x18\xc0", (25, 3, 8000, 72, 576, 9)),  # MPEG 2.5, 8 kHz, 8 kbit/s
        (b"\xff\xfd\x80\x00", (1, 2, 44100, 417, 1152, 32)),  # layer II, 128 kbit/s
    ],
)
def test_frame_headers(head: bytes, expected: tuple[int, ...]) -> None:
    frame = parse(head)
    assert frame is not None
    assert (frame.version, frame.layer, frame.rate, frame.size, frame.samples, frame.side) == expected
