"""What PyAV reads: containers of video and phones, MP3; where they stop, and what their headers promised."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from mlxbatch.audio import decode
from mlxbatch.errors import ItemError
from mlxbatch.probe import probe
from mlxbatch.source import open_source
from mlxbatch.types import Item, Recording

from .sounds import encoded, loudness, pictures_only, tone, two_streams, voices


def item(path: Path) -> Item:
    return Item("id", path, Path(path.stem))


def decoded(path: Path) -> Recording:
    return decode(item(path))


def refusal(path: Path) -> str:
    with pytest.raises(ItemError) as caught:
        decoded(path)
    assert (caught.value.path, caught.value.stage) == (path, "decode")
    return caught.value.cause


def whole(path: Path) -> list[np.ndarray]:
    with open_source(path, "decode") as source:
        return [*source.blocks()]


@pytest.mark.parametrize(
    ("name", "codec", "rate", "channels", "container", "video"),
    [
        ("a.m4a", "aac", 16000, 1, None, False),
        ("a.mp4", "aac", 44100, 2, None, True),
        ("a.mov", "pcm_s16le", 48000, 2, None, True),
        ("a.mka", "libopus", 48000, 1, None, False),
        ("a.mkv", "aac", 44100, 2, None, True),
        ("a.webm", "libopus", 48000, 2, None, False),
        ("a.avi", "libmp3lame", 44100, 1, None, True),
        ("a.ts", "aac", 44100, 1, "mpegts", True),
        ("a.aac", "aac", 16000, 1, "adts", False),
        ("a.amr", "libopencore_amrnb", 8000, 1, "amr", False),
        ("a.mp3", "libmp3lame", 44100, 2, None, False),
        ("a.mp2", "mp2", 44100, 1, "mp2", False),
        ("a.ac3", "ac3", 48000, 6, None, False),
        ("a.tta", "tta", 16000, 1, None, False),
        ("a.wv", "wavpack", 16000, 1, None, False),
        ("a.flac.mkv", "flac", 16000, 1, None, True),
    ],
)
def test_containers_and_codecs(
    tmp_path: Path, name: str, codec: str, rate: int, channels: int, container: str | None, video: bool
) -> None:
    samples = tone(3.0, rate, level=0.3) if channels == 1 else voices(3.0, rate, channels)
    source = encoded(tmp_path / name, codec, samples, rate, container=container, video=video)
    probed, recording = probe(item(source)), decoded(source)
    assert (probed.sample_rate, probed.channels) == (rate, channels)
    assert probed.seconds == pytest.approx(3.0, abs=0.1)
    assert recording.seconds == pytest.approx(3.0, abs=0.1)
    assert (recording.truncated, recording.warnings) == (False, ())
    mono = samples if channels == 1 else samples.mean(axis=1)
    assert loudness(recording.samples) == pytest.approx(loudness(mono), rel=0.3 if name == "a.amr" else 0.15)


@pytest.mark.parametrize("channels", [1, 2, 8])
@pytest.mark.parametrize("codec", ["pcm_s16le", "pcm_s24le", "pcm_s32le", "pcm_f32le", "pcm_f64le"])
def test_numbers_stay_what_they_were(tmp_path: Path, codec: str, channels: int) -> None:
    samples = tone(0.5) if channels == 1 else voices(0.5, channels=channels)
    source = encoded(tmp_path / "a.mov", codec, samples)
    found = np.concatenate(whole(source))
    bits = {"pcm_s16le": 15, "pcm_s24le": 23}.get(codec)
    expected = samples.reshape(-1, channels)
    if bits:
        np.testing.assert_array_equal(found * 2**bits, np.round(found * 2**bits))
    np.testing.assert_allclose(found, expected, atol=2.0 ** -(bits or 23))
    if codec.startswith("pcm_f"):
        np.testing.assert_array_equal(found, expected)


def test_eight_channels_that_lie_apart(tmp_path: Path) -> None:
    # PyAV itself reads beyond the frame there, and dies.
    source = encoded(tmp_path / "a.m4a", "aac", voices(2.0, 48000, 8), 48000)
    found = np.concatenate(whole(source))
    assert found.shape[1] == 8
    assert loudness(found) == pytest.approx(0.3 / np.sqrt(2), rel=0.1)


def test_blocks_are_even_however_small_a_codec_s_frames_are(tmp_path: Path) -> None:
    blocks = whole(encoded(tmp_path / "a.amr", "libopencore_amrnb", tone(5.0, 8000), 8000, container="amr"))
    assert all(8192 <= len(block) < 8192 + 160 for block in blocks[:-1])


@pytest.mark.parametrize("codec", ["aac", "alac"])
def test_a_cut_m4a_whose_index_comes_first_is_decoded_as_far_as_it_goes(tmp_path: Path, codec: str) -> None:
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, 10 * 16000).astype(np.float32)
    source = encoded(tmp_path / "a.m4a", codec, noise, options={"movflags": "faststart"})
    content = source.read_bytes()
    source.write_bytes(content[: len(content) // 2])
    recording = decoded(source)
    assert recording.seconds == pytest.approx(5.0, abs=0.5)
    assert recording.truncated
    assert recording.warnings[0] == f"truncated: {recording.seconds:.2f} s decoded of the 10.00 s in its header"


def test_a_cut_m4a_whose_index_came_last_cannot_be_read(tmp_path: Path) -> None:
    source = encoded(tmp_path / "a.m4a", "aac", tone(5.0))
    source.write_bytes(source.read_bytes()[:-500])
    assert refusal(source) == (
        "not an audio file that can be read: its index (moov) is missing: the recording was cut off before its end"
    )


@pytest.mark.parametrize(
    ("name", "codec", "rate", "video"),
    [
        ("a.mka", "libopus", 48000, False),
        ("a.mkv", "aac", 44100, True),
        ("a.avi", "libmp3lame", 44100, True),
        ("a.tta", "tta", 16000, False),
        ("a.mp3", "libmp3lame", 44100, False),
        ("a.mp3", "libmp3lame", 8000, False),
        ("a.flv", "aac", 44100, False),
        ("a.wma", "wmav2", 44100, False),
        ("a.wmv", "wmav2", 44100, True),
    ],
)
def test_what_is_cut_off_is_decoded_as_far_as_it_goes(
    tmp_path: Path, name: str, codec: str, rate: int, video: bool
) -> None:
    bit_rate = 64_000 if codec == "wmav2" else None
    source = encoded(tmp_path / name, codec, tone(6.0, rate), rate, video=video, bit_rate=bit_rate)
    assert not decoded(source).truncated
    content = source.read_bytes()
    source.write_bytes(content[: int(len(content) * 0.6)])
    recording = decoded(source)
    assert 1.5 < recording.seconds < 4.5
    assert recording.truncated
    assert recording.warnings[0].startswith(f"truncated: {recording.seconds:.2f} s decoded of the ")


def test_an_mp3_that_does_not_count_its_frames_is_read_to_its_end(tmp_path: Path) -> None:
    # Loud and silent parts: a guess by the bit rate of the first frames is far off.
    rng = np.random.default_rng(0)
    samples = np.concatenate([rng.uniform(-0.5, 0.5, 5 * 44100), np.zeros(10 * 44100)])
    path = tmp_path / "a.mp3"
    soundfile.write(path, samples, 44100, format="MP3", bitrate_mode="VARIABLE", compression_level=0.9)
    path.write_bytes(path.read_bytes().replace(b"Xing", bytes(4)))
    recording = decoded(path)
    assert recording.seconds == pytest.approx(15.0, abs=0.1)
    assert (recording.truncated, recording.warnings) == (False, ())


@pytest.mark.parametrize("front", [b"ID3\x04\x00\x00\x00\x00\x01\x0a" + bytes(138), bytes(0)])
def test_an_mp3_behind_a_tag_and_with_one_behind_it(tmp_path: Path, front: bytes) -> None:
    source = encoded(tmp_path / "a.mp3", "libmp3lame", tone(3.0, 44100), 44100)
    source.write_bytes(front + source.read_bytes() + b"TAG" + b"x" * 125)
    recording = decoded(source)
    assert recording.seconds == pytest.approx(3.0, abs=0.03)
    assert recording.warnings == ()


def test_an_mp3_with_a_hole_goes_on_behind_it_and_says_so(tmp_path: Path) -> None:
    source = encoded(tmp_path / "a.mp3", "libmp3lame", tone(6.0, 44100), 44100)
    content = bytearray(source.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 3000] = bytes(3000)
    source.write_bytes(content)
    recording = decoded(source)
    assert 5.0 < recording.seconds < 6.0
    assert recording.warnings[0].startswith("truncated: 5.")


def test_what_cannot_be_decoded_is_silence_and_said(tmp_path: Path) -> None:
    source = encoded(tmp_path / "a.m4a", "alac", np.random.default_rng(0).uniform(-1, 1, 160000).astype(np.float32))
    content = bytearray(source.read_bytes())
    content[100000:150000] = b"\xee" * 50000
    source.write_bytes(content)
    recording = decoded(source)
    assert recording.seconds == pytest.approx(10.0, abs=0.1)
    assert [warning[:9] for warning in recording.warnings] == ["damaged: "]


def test_a_video_without_sound_says_so(tmp_path: Path) -> None:
    source = pictures_only(tmp_path / "a.mp4")
    assert refusal(source) == "not an audio file that can be read: a video without sound"


@pytest.mark.parametrize(
    ("made", "called"),
    [("a.m4a", "b.wav"), ("a.mp3", "b.wav"), ("a.mp3", "b.flac"), ("a.mkv", "b.mp3"), ("a.aac", "b")],
)
def test_a_wrong_name_does_not_matter(tmp_path: Path, made: str, called: str) -> None:
    codec = "libmp3lame" if made == "a.mp3" else "aac"
    container = "adts" if made == "a.aac" else None
    source = encoded(tmp_path / made, codec, tone(2.0, 44100), 44100, container=container)
    assert decoded(source.rename(tmp_path / called)).seconds == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("name", ["a.mkv", "a.mp4"])
def test_a_pause_in_the_time_stamps_is_silence(tmp_path: Path, name: str) -> None:
    source = encoded(tmp_path / name, "aac", tone(4.0), pause=(2.0, 3.0))
    recording = decoded(source)
    assert recording.seconds == pytest.approx(7.0, abs=0.2)
    assert loudness(recording.samples[0, 40000:72000]) < 0.01
    assert loudness(recording.samples[0, 88000:104000]) == pytest.approx(0.5 / np.sqrt(2), rel=0.1)


def test_sound_that_begins_later_than_its_video_keeps_its_time(tmp_path: Path) -> None:
    source = encoded(tmp_path / "a.mkv", "aac", tone(3.0), video=True, pause=(0.0, 1.5))
    recording = decoded(source)
    assert recording.seconds == pytest.approx(4.5, abs=0.2)
    assert loudness(recording.samples[0, :20000]) < 0.01


def test_of_several_streams_the_default_one_is_taken(tmp_path: Path) -> None:
    source = two_streams(tmp_path / "a.mp4", tone(2.0, level=0.5), tone(3.0, level=0.1))
    recording = decoded(source)
    assert recording.seconds == pytest.approx(3.0, abs=0.1)
    assert loudness(recording.samples) == pytest.approx(0.1 / np.sqrt(2), rel=0.15)
    assert recording.warnings == ("2 streams of sound: number 1 was taken (deu), counted from 0",)


@pytest.mark.parametrize(
    ("rate", "channels", "says"),
    [
        (24000, 1, "the sample rate changes from 48000 to 24000"),
        (48000, 2, "the number of channels changes from 1 to 2"),
    ],
)
def test_a_rate_or_channels_that_change_on_the_way(tmp_path: Path, rate: int, channels: int, says: str) -> None:
    first = encoded(tmp_path / "1.mp3", "libmp3lame", tone(2.0, 48000), 48000)
    later = tone(3.0, rate) if channels == 1 else np.repeat(tone(3.0, rate)[:, None], 2, axis=1)
    second = encoded(tmp_path / "2.mp3", "libmp3lame", later, rate)
    source = tmp_path / "a.mp3"
    source.write_bytes(first.read_bytes() + second.read_bytes())
    recording = decoded(source)
    assert recording.seconds == pytest.approx(5.0, abs=0.15)
    np.testing.assert_allclose(loudness(recording.samples[0, -30000:-4000]), 0.5 / np.sqrt(2), rtol=0.05)
    assert [warning[: len(says)] for warning in recording.warnings] == [says]


@pytest.mark.parametrize(
    ("codec", "byte", "why"),
    [
        ("alac", b"\0", ": invalid data found when processing input"),
        ("alac", b"\xee", ""),  # without an error
        ("aac", b"\xff", ": invalid data"),
    ],
)
def test_a_container_whose_packets_are_nothing(tmp_path: Path, codec: str, byte: bytes, why: str) -> None:
    source = encoded(tmp_path / "a.m4a", codec, np.random.default_rng(0).uniform(-1, 1, 80000).astype(np.float32))
    content = bytearray(source.read_bytes())
    start, end = content.index(b"mdat") + 4, content.index(b"moov") - 4
    content[start:end] = byte * (end - start)
    source.write_bytes(content)
    assert refusal(source) == f"its sound ({codec}) cannot be decoded{why}"


def test_sound_of_a_codec_that_nobody_knows(tmp_path: Path) -> None:
    source = encoded(tmp_path / "a.mka", "libopus", tone(2.0, 48000), 48000)
    source.write_bytes(source.read_bytes().replace(b"A_OPUS", b"A_ZZZZ"))
    assert refusal(source) == "not an audio file that can be read: its sound is in a codec that is not known here"


def test_a_length_that_no_file_of_that_size_can_have_is_not_believed(tmp_path: Path) -> None:
    source = encoded(tmp_path / "a.mka", "libopus", tone(2.0, 48000), 48000)
    content = source.read_bytes()
    source.write_bytes(content.replace(b"00:00:02.", b"99:00:02."))
    assert probe(item(source)).seconds == len(content) / 16
    assert decoded(source).seconds == pytest.approx(2.0, abs=0.1)


def test_numbers_that_are_none_are_counted_whoever_reads_them(tmp_path: Path) -> None:
    samples = tone(1.0)
    samples.view(np.uint32)[100:103] = [0x7F800001, 0x7F800000, 0xFFC00000]  # a signalling NaN, infinity, a quiet NaN
    source = encoded(tmp_path / "a.mov", "pcm_f32le", samples)
    assert decoded(source).warnings == ("3 samples that are not finite numbers were set to 0",)
