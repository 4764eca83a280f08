"""Decoding: what comes out, and what is said about what was wrong."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mlxbatch import audio
from mlxbatch.audio import decode
from mlxbatch.errors import ItemError
from mlxbatch.probe import probe
from mlxbatch.types import Item, Recording

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "data"


def item(path: Path) -> Item:
    return Item("id", path, Path(path.stem))


def tone(seconds: float = 1.0, rate: int = 16000, frequency: float = 440.0, level: float = 0.5) -> NDArray[np.float64]:
    return level * np.sin(2 * np.pi * frequency * np.arange(round(seconds * rate)) / rate)


def saved(path: Path, samples: NDArray[np.floating], rate: int = 16000, subtype: str = "PCM_16") -> Path:
    soundfile.write(path, samples, rate, subtype=subtype)
    return path


def decoded(path: Path, samples: NDArray[np.floating], rate: int = 16000, subtype: str = "PCM_16") -> Recording:
    return decode(item(saved(path, samples, rate, subtype)))


def rms(samples: NDArray[np.floating]) -> float:
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))


def test_the_engines_rate_passes_untouched_by_any_16_bit_step(tmp_path: Path) -> None:
    samples = (tone() * 0.00001).astype(np.float32)  # below one step of 16 bits
    recording = decoded(tmp_path / "a.wav", samples, subtype="FLOAT")
    assert recording.samples[0].dtype == np.float32
    np.testing.assert_array_equal(recording.samples[0], samples)
    assert (recording.sample_rate, recording.warnings, recording.truncated) == (16000, (), False)


@pytest.mark.parametrize("rate", [4000, 8000, 11025, 22050, 44100, 48000, 96000])
def test_resampling_keeps_length_pitch_and_level(tmp_path: Path, rate: int) -> None:
    recording = decoded(tmp_path / "a.flac", tone(2.0, rate), rate)
    assert len(recording.samples[0]) == pytest.approx(32000, abs=1)
    inner = recording.samples[0][4000:28000]
    np.testing.assert_allclose(inner, tone(2.0)[4000:28000], atol=2e-3)


def test_resampling_in_blocks_is_resampling_at_once(tmp_path: Path) -> None:
    soxr = pytest.importorskip("soxr")
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, 100_000).astype(np.float32)
    recording = decoded(tmp_path / "a.wav", noise, 44100, "FLOAT")
    np.testing.assert_allclose(recording.samples[0], soxr.resample(noise, 44100, 16000, quality="HQ"), atol=1e-5)


def test_another_rate_can_be_asked_for(tmp_path: Path) -> None:
    recording = decode(item(saved(tmp_path / "a.wav", tone())), 24000)
    assert (len(recording.samples[0]), recording.sample_rate, recording.seconds) == (24000, 24000, 1.0)


@pytest.mark.parametrize("rate", [8000, 16000, 44100])
@pytest.mark.parametrize("frames", [0, 1, 2, 160, 400, 1500])
def test_short_recordings(tmp_path: Path, frames: int, rate: int) -> None:
    recording = decoded(tmp_path / "a.wav", np.full(frames, 0.25), rate)
    assert recording.samples[0].shape == (round(frames * 16000 / rate),)
    assert recording.warnings == ()


def test_channels_are_averaged(tmp_path: Path) -> None:
    six = np.stack([tone(level=0.1 * i) for i in range(1, 7)], axis=1)
    recording = decoded(tmp_path / "a.flac", six)
    np.testing.assert_allclose(recording.samples[0], tone(level=0.35), atol=1e-4)
    assert recording.warnings == ()


def test_one_dead_channel_is_no_reason_for_a_warning(tmp_path: Path) -> None:
    recording = decoded(tmp_path / "a.wav", np.stack([tone(), np.zeros(16000)], axis=1))
    np.testing.assert_allclose(recording.samples[0], tone() / 2, atol=1e-4)
    assert recording.warnings == ()


@pytest.mark.parametrize("rate", [16000, 44100])
def test_opposite_phase_takes_the_louder_channel(tmp_path: Path, rate: int) -> None:
    left = tone(rate=rate)
    recording = decoded(tmp_path / "a.wav", np.stack([-0.99 * left, left], axis=1), rate)
    np.testing.assert_allclose(recording.samples[0][2000:14000], tone()[2000:14000], atol=2e-3)
    assert recording.warnings == (
        "the 2 channels cancel each other when mixed (the mix is 46 dB below channel 1, opposite phase?): "
        "channel 1 alone was taken",
    )


def test_silence_in_two_channels_is_silence(tmp_path: Path) -> None:
    recording = decoded(tmp_path / "a.wav", np.zeros((16000, 2)))
    assert (rms(recording.samples[0]), recording.warnings) == (0.0, ())


def test_samples_that_are_not_finite_become_zero(tmp_path: Path) -> None:
    samples = tone().astype(np.float32)
    samples[100:103] = [np.nan, np.inf, -np.inf]
    recording = decoded(tmp_path / "a.wav", samples, subtype="FLOAT")
    assert recording.samples[0][100:103].tolist() == [0.0, 0.0, 0.0]
    assert recording.warnings == ("3 samples that are not finite numbers were set to 0",)


def test_floats_beyond_full_scale_are_scaled_by_the_peak(tmp_path: Path) -> None:
    recording = decoded(tmp_path / "a.wav", tone(level=8.0), subtype="FLOAT")
    np.testing.assert_allclose(recording.samples[0], tone(level=1.0), atol=1e-3)
    assert recording.warnings == ("samples up to 8, beyond full scale (1.0): scaled down by that factor",)


@pytest.mark.parametrize("rate", [16000, 44100])
def test_a_bit_that_fell_over_in_a_float_does_not_silence_the_rest(tmp_path: Path, rate: int) -> None:
    samples = tone(rate=rate).astype(np.float32)
    samples[5000:5002] = [3e38, -1e12]
    recording = decoded(tmp_path / "a.wav", samples, rate, "FLOAT")
    np.testing.assert_allclose(recording.samples[0][8000:14000], tone()[8000:14000], atol=2e-3)
    assert recording.warnings == ("2 samples that are not finite numbers were set to 0",)


def test_floats_on_the_scale_of_32_bit_numbers_are_sound(tmp_path: Path) -> None:
    recording = decoded(tmp_path / "a.wav", tone(level=2.0**31), subtype="FLOAT")
    np.testing.assert_allclose(recording.samples[0], tone(level=1.0), atol=1e-3)


def test_a_cut_wav_is_decoded_as_far_as_it_goes(tmp_path: Path) -> None:
    source = saved(tmp_path / "a.wav", tone(2.0))
    source.write_bytes(source.read_bytes()[: 44 + 32000])
    recording = decode(item(source))
    assert recording.seconds == 1.0
    assert recording.truncated
    assert recording.warnings == ("truncated: 1.00 s decoded of the 2.00 s in its header",)
    assert probe(item(source)).seconds == 1.0


def test_a_wav_of_which_the_header_alone_is_left(tmp_path: Path) -> None:
    source = saved(tmp_path / "a.wav", tone(2.0))
    source.write_bytes(source.read_bytes()[:44])
    recording = decode(item(source))
    assert (recording.seconds, recording.truncated) == (0.0, True)
    assert recording.warnings == ("truncated: 0.00 s decoded of the 2.00 s in its header",)


def test_a_cut_aiff_is_noticed(tmp_path: Path) -> None:
    source = saved(tmp_path / "a.aiff", tone(2.0))
    source.write_bytes(source.read_bytes()[:-32000])
    recording = decode(item(source))
    assert (recording.seconds, recording.truncated) == (1.0, True)


def test_a_missing_last_byte_is_not_worth_a_warning(tmp_path: Path) -> None:
    source = saved(tmp_path / "a.wav", tone())
    source.write_bytes(source.read_bytes()[:-1])
    assert decode(item(source)).warnings == ()


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "ULAW", "FLOAT"])
@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0x7FFFFFFF])
def test_sizes_that_a_recorder_left_open_mean_all_there_is(tmp_path: Path, size: int, subtype: str) -> None:
    source = saved(tmp_path / "a.wav", tone(), subtype=subtype)
    content = bytearray(source.read_bytes())
    at = content.index(b"data") + 4
    content[4:8] = content[at : at + 4] = struct.pack("<I", size)
    source.write_bytes(content)
    recording = decode(item(source))
    assert (recording.seconds, recording.truncated, recording.warnings) == (1.0, False, ())
    assert rms(recording.samples[0]) == pytest.approx(0.5 / np.sqrt(2), rel=0.01)
    assert probe(item(source)).seconds == 1.0


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_cut_flac_is_decoded_as_far_as_it_goes(tmp_path: Path, share: float) -> None:
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, 10 * 16000)
    source = saved(tmp_path / "a.flac", noise)
    content = source.read_bytes()
    source.write_bytes(content[: int(len(content) * share)])
    recording = decode(item(source))
    assert recording.seconds == pytest.approx(10 * share, abs=0.4)  # whole FLAC frames of 4096 samples
    np.testing.assert_allclose(recording.samples[0], noise[: len(recording.samples[0])], atol=1e-4)
    assert recording.truncated
    assert recording.warnings[0].startswith(
        f"truncated: {recording.seconds:.2f} s decoded of the 10.00 s in its header"
    )


def flac_with_length(path: Path, frames: int) -> Path:
    """The 36 bits of STREAMINFO that hold the number of samples."""
    content = bytearray(saved(path, tone(3.0)).read_bytes())
    content[8 + 13] = content[8 + 13] & 0xF0 | frames >> 32
    content[8 + 14 : 8 + 18] = struct.pack(">I", frames & 0xFFFFFFFF)
    path.write_bytes(content)
    return path


def test_a_flac_that_does_not_know_its_length_is_read_to_the_end(tmp_path: Path) -> None:
    recording = decode(item(flac_with_length(tmp_path / "a.flac", 0)))
    assert (recording.seconds, recording.truncated, recording.warnings) == (3.0, False, ())


def test_a_header_that_claims_months_asks_for_no_memory(tmp_path: Path) -> None:
    recording = decode(item(flac_with_length(tmp_path / "a.flac", 2**36 - 1)))
    assert (recording.seconds, recording.truncated) == (3.0, True)


def test_a_cut_mp3_is_noticed(tmp_path: Path) -> None:
    source = tmp_path / "a.mp3"
    soundfile.write(source, tone(6.0, 44100), 44100, format="MP3")
    content = source.read_bytes()
    source.write_bytes(content[: len(content) // 2])
    recording = decode(item(source))
    assert recording.truncated
    assert recording.seconds == pytest.approx(3.0, abs=0.3)


@pytest.mark.parametrize("suffix", ["wav", "flac", "ogg", "mp3", "aiff", "au", "caf", "w64", "rf64"])
def test_every_format_that_libsndfile_writes(tmp_path: Path, suffix: str) -> None:
    source = tmp_path / f"a.{suffix}"
    soundfile.write(source, tone(2.0), 16000, format=suffix.upper())
    recording = decode(item(source))
    assert recording.seconds == pytest.approx(2.0, abs=0.1)
    assert recording.warnings == ()
    assert rms(recording.samples[0]) == pytest.approx(0.5 / np.sqrt(2), rel=0.1)


def test_what_cannot_be_opened_fails_in_the_stage_decode(tmp_path: Path) -> None:
    with pytest.raises(ItemError, match=r"a\.wav: decode: no such file$"):
        decode(item(tmp_path / "a.wav"))


def test_a_decoder_that_fails_at_once_fails_the_item(tmp_path: Path) -> None:
    source = saved(tmp_path / "a.flac", tone(3.0))
    content = source.read_bytes()
    source.write_bytes(content[: content.index(b"\xff\xf8")] + bytes(5000))
    with pytest.raises(ItemError, match=r"a\.flac: decode: flac decoder lost sync$"):
        decode(item(source))


def test_memory_follows_the_target_rate_and_one_channel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    joined = audio._joined

    def counted(parts: list[audio.Samples], tracks: int) -> audio.Samples:
        kept.append(sum(part.nbytes for part in parts))
        return joined(parts, tracks)

    monkeypatch.setattr(audio, "_joined", counted)
    source = item(saved(tmp_path / "a.wav", np.zeros((96000, 8)), 48000))
    for channels in ("mix", 5, "split"):
        decode(source, channels=channels)  # type: ignore[arg-type]
    assert kept == [2 * 16000 * 4, 2 * 16000 * 4, 8 * 2 * 16000 * 4]


@settings(max_examples=60, deadline=None)
@given(
    frames=st.integers(0, 30000),
    channels=st.integers(1, 4),
    rate=st.sampled_from([8000, 16000, 22050, 48000]),
    level=st.floats(0.0, 3.0),
    seed=st.integers(0, 99),
)
def test_whatever_comes_in_samples_are_finite_and_in_range(
    tmp_path_factory: pytest.TempPathFactory, frames: int, channels: int, rate: int, level: float, seed: int
) -> None:
    noise = level * np.random.default_rng(seed).uniform(-1, 1, (frames, channels))
    recording = decoded(tmp_path_factory.mktemp("h") / "a.wav", noise, rate, "FLOAT")
    assert np.isfinite(recording.samples[0]).all()
    assert np.abs(recording.samples[0]).max(initial=0.0) <= 1.0
    assert len(recording.samples[0]) == pytest.approx(frames * 16000 / rate, abs=1)


@pytest.mark.parametrize("rate", [16000, 44100])
def test_an_mp3_in_blocks_sounds_like_the_mp3_at_once(tmp_path: Path, rate: int) -> None:
    # soundfile's own block reads lose the bit reservoir between blocks: off by 0.6 of full scale here.
    source = tmp_path / "a.mp3"
    soundfile.write(source, tone(3.0, rate), rate, format="MP3")
    at_once, _ = soundfile.read(source, dtype="float32")
    recording = decode(item(source), rate)
    np.testing.assert_allclose(recording.samples[0], at_once, atol=1e-5)


def corpus_rows() -> Iterator[dict[str, object]]:
    with (CORPUS / "manifest.jsonl").open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


needs_corpus = pytest.mark.skipif(not (CORPUS / "manifest.jsonl").exists(), reason="the shared recordings are missing")


@pytest.mark.corpus
@needs_corpus
def test_every_recording_of_the_corpus_is_decoded_whole_and_right() -> None:
    rows = [row for row in corpus_rows() if row["expect_decode"] is True]
    wrong = {row["path"]: faults for row in rows if (faults := what_is_wrong(row))}
    assert len(rows) == 657
    assert wrong == {}


def what_is_wrong(row: dict[str, object]) -> list[str]:
    probed, recording = probe(item(CORPUS / str(row["path"]))), decode(item(CORPUS / str(row["path"])))
    promised = float(str(row["duration_s"]))
    # The header's length is a guess where nothing in it tells: raw MPEG, AMR and MPEG-TS streams.
    slack = 0.5 if str(row["path"]).endswith((".mp3", ".amr", ".awb", ".ts", ".aac")) else 0.1
    checks = {
        f"{recording.seconds} s": abs(recording.seconds - promised) <= 0.1,
        f"{probed.seconds} s in its header": recording.truncated or abs(probed.seconds - promised) <= slack,
        f"{probed.channels} channels": probed.channels == row["channels"],
        "samples that are not finite": bool(np.isfinite(recording.samples).all()),
        "samples beyond full scale": bool(np.abs(recording.samples).max(initial=0.0) <= 1.0),
        "damaged": not any("damaged" in warning for warning in recording.warnings),
        "truncated": recording.truncated == ("truncated" in str(row["path"])),
    }
    return [fault for fault, holds in checks.items() if not holds]


@pytest.mark.corpus
@needs_corpus
def test_what_the_corpus_says_cannot_be_decoded_is_refused_in_one_line() -> None:
    refused = 0
    for row in corpus_rows():
        path = CORPUS / str(row["path"])
        if row["expect_decode"] is False:
            with pytest.raises(ItemError) as caught:
                decode(item(path))
            assert str(caught.value).startswith(f"{path}: decode: ")
            assert caught.value.cause
            assert "\n" not in str(caught.value)
            refused += 1
    assert refused == 4


@pytest.mark.corpus
@needs_corpus
@pytest.mark.parametrize(
    ("name", "seconds", "truncated", "warning"),
    [
        ("edge/riff_size_0.wav", 7.554, False, ""),
        ("edge/riff_size_ffffffff.wav", 7.554, False, ""),
        ("edge/truncated_half.wav", 3.776, True, "truncated: 3.78 s decoded of the 7.55 s"),
        ("edge/truncated.mp3", 7.315, True, "truncated: 7.32 s decoded of the 11.00 s"),
        ("edge/truncated.flac", 1.672, True, "truncated: 1.67 s decoded of the 11.00 s"),
        ("edge/header_only_44.wav", 0.0, True, "truncated: 0.00 s decoded of the 7.55 s"),
        ("edge/float_nan_inf.wav", 7.554, False, "11 samples that are not finite"),
        ("edge/float_over_range.wav", 7.554, False, "samples up to 6.771"),
        ("edge/stereo_antiphase.wav", 7.554, False, "the 2 channels cancel each other"),
        ("containers/jfk.vbr.mp3", 11.04, False, ""),
    ],
)
def test_the_edge_cases_of_the_corpus(name: str, seconds: float, truncated: bool, warning: str) -> None:
    recording = decode(item(CORPUS / name))
    assert recording.seconds == pytest.approx(seconds, abs=0.01)
    assert recording.truncated is truncated
    assert [text[: len(warning)] for text in recording.warnings] == ([warning] if warning else [])
