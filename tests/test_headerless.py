"""Rules for recordings without a header: how they are written, which are known, what they are read as."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
import soundfile

from mlxbatch.audio import decode
from mlxbatch.discover import discover
from mlxbatch.headerless import DEFAULTS, ENCODINGS, Rule, RuleError, departure, parse, rule_for, rules
from mlxbatch.probe import probe
from mlxbatch.run_settings import ModelKey, RunSettings
from mlxbatch.types import Item
from mlxbatch.walk import MEDIA_SUFFIXES

from .sounds import encoded, loudness, tone, voices

ENDS = (("le", "LITTLE"), ("be", "BIG"))


def item(path: Path) -> Item:
    return Item("id", path, Path(path.stem))


def raw(path: Path, subtype: str, rate: int = 8000, channels: int = 1, endian: str = "FILE") -> Path:
    samples = tone(2.0, rate) if channels == 1 else voices(2.0, rate, channels)
    soundfile.write(path, samples, rate, format="RAW", subtype=subtype, endian=endian)
    return path


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("mulaw", Rule("mulaw", 8000, 1)),
        ("s16le 16000", Rule("s16le", 16000, 1)),
        (" alaw  8000 2 ", Rule("alaw", 8000, 2)),
        ("g722", Rule("g722", 16000, 1)),
        ("g722 16000 1", Rule("g722", 16000, 1)),
    ],
)
def test_what_a_rule_says(text: str, rule: Rule) -> None:
    assert parse(text) == rule
    assert parse(str(rule)) == rule


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "unknown encoding ''"),
        ("mulow 8000 1", "unknown encoding 'mulow'; did you mean 'mulaw'?"),
        ("mulaw 8k", 'must be "ENCODING RATE CHANNELS", such as "mulaw 8000 1"'),
        ("mulaw 8000 1 1", 'must be "ENCODING RATE CHANNELS", such as "mulaw 8000 1"'),
        ("mulaw -8000", 'must be "ENCODING RATE CHANNELS", such as "mulaw 8000 1"'),
        ("mulaw 8", "the sample rate must be from 1000 to 1000000 Hz, not 8"),
        ("mulaw 8000 65", "the channels must be from 1 to 64, not 65"),
        ("g722 8000", "g722 is always at 16000 Hz with 1 channel"),
        ("g729 8000 2", "g729 is always at 8000 Hz with 1 channel"),
    ],
)
def test_what_is_no_rule_says_why(text: str, why: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse(text)
    assert str(caught.value) == why


def test_names_are_known_whatever_their_case_and_the_profile_s_come_first() -> None:
    known = rules({".VOX8": "mulaw 8000 1", "al": "alaw 16000 1"})
    assert rule_for(Path("a.vox8"), known) == rule_for(Path("b.Vox8"), known) == Rule("mulaw", 8000, 1)
    assert rule_for(Path("a.AL"), known) == Rule("alaw", 16000, 1)
    assert rule_for(Path("a.alaw"), known) == Rule("alaw", 8000, 1)
    assert rule_for(Path("a.wav"), known) is rule_for(Path("al"), known) is None


@pytest.mark.parametrize("name", ["", ".", "a.b", "a/b"])
def test_what_is_no_suffix(name: str) -> None:
    with pytest.raises(RuleError, match="is no file name suffix"):
        rules({name: "mulaw"})


def test_known_names_are_found_in_folders(tmp_path: Path) -> None:
    assert {f".{name}" for name in DEFAULTS} <= MEDIA_SUFFIXES
    for name in ("a.ulaw", "b.sln16", "c.mine", "d.txt"):
        (tmp_path / name).write_bytes(b"x")
    found = discover([tmp_path], output=tmp_path / "out", also=("mine",))
    assert [one.relpath.name for one in found.items] == ["a", "b", "c"]
    assert found.not_taken == {"ignored": 1}


@pytest.mark.parametrize(
    ("name", "subtype", "rate"),
    [
        *[(name, "ULAW", 8000) for name in ("ulaw", "ul", "mulaw", "mu", "ulw")],
        *[(name, "ALAW", 8000) for name in ("alaw", "al", "alw")],
        *[("gsm", "GSM610", 8000), ("vox", "VOX_ADPCM", 8000)],
        *[("sln", "PCM_16", 8000), ("sln16", "PCM_16", 16000), ("sln48", "PCM_16", 48000)],
    ],
)
def test_names_of_switches_by_default(tmp_path: Path, name: str, subtype: str, rate: int) -> None:
    source = raw(tmp_path / f"a.{name}", subtype, rate)
    probed, recording = probe(item(source)), decode(item(source))
    assert (probed.sample_rate, probed.channels) == (rate, 1)
    assert probed.seconds == pytest.approx(2.0, abs=0.1)
    assert recording.seconds == pytest.approx(2.0, abs=0.1)
    assert loudness(recording.samples) == pytest.approx(0.354, rel=0.05)
    assert recording.warnings == ()


@pytest.mark.parametrize(
    ("name", "codec", "rate", "bit_rate"),
    [
        ("g722", "g722", 16000, 64000),
        ("g726", "g726le", 8000, 32000),
        *[(f"g726-{kilobits}", "g726le", 8000, kilobits * 1000) for kilobits in (16, 24, 32, 40)],
        ("g723", "g723_1", 8000, 6300),
    ],
)
def test_codecs_of_switches_by_default(tmp_path: Path, name: str, codec: str, rate: int, bit_rate: int) -> None:
    container = "data" if codec == "g723_1" else codec
    source = encoded(tmp_path / f"a.{name}", codec, tone(2.1, rate), rate, container=container, bit_rate=bit_rate)
    probed, recording = probe(item(source)), decode(item(source))
    assert (probed.sample_rate, probed.channels) == (rate, 1)
    assert recording.seconds == pytest.approx(2.1, abs=0.1)
    assert loudness(recording.samples) == pytest.approx(0.354, rel=0.2)


@pytest.mark.parametrize(
    ("encoding", "subtype", "endian"),
    [
        ("u8", "PCM_U8", "FILE"),
        ("s8", "PCM_S8", "FILE"),
        *[(f"s{bits}{end}", f"PCM_{bits}", word) for bits in (16, 24, 32) for end, word in ENDS],
        *[(f"f32{end}", "FLOAT", word) for end, word in ENDS],
        *[(f"f64{end}", "DOUBLE", word) for end, word in ENDS],
    ],
)
def test_every_encoding_of_numbers_comes_back_by_a_rule(
    tmp_path: Path, encoding: str, subtype: str, endian: str
) -> None:
    source = raw(tmp_path / "a.mine", subtype, 16000, 2, endian)
    known = rules({"mine": f"{encoding} 16000 2"})
    assert probe(item(source), known).channels == 2
    recording = decode(item(source), rules=known)
    np.testing.assert_allclose(recording.samples[0], voices(2.0).mean(axis=1), atol=0.01)


def test_every_encoding_is_read_by_someone() -> None:
    assert all(bool(one.soundfile) != bool(one.demuxer) for one in ENCODINGS.values())


@pytest.mark.parametrize("own", [{}, {"ulaw": "s16le 48000 2"}])
def test_a_header_is_believed_whatever_the_name_says(tmp_path: Path, own: dict[str, str]) -> None:
    source = tmp_path / "a.ulaw"
    soundfile.write(source, tone(), 16000, format="WAV")
    np.testing.assert_allclose(decode(item(source), rules=rules(own)).samples[0], tone(), atol=1e-4)


def test_silence_in_mulaw_is_not_taken_for_an_mp3(tmp_path: Path) -> None:
    source = tmp_path / "a.ulaw"
    source.write_bytes(b"\xff\xfb" * 8000)
    assert decode(item(source)).seconds == 2.0


def test_a_gsm_file_with_a_short_last_frame(tmp_path: Path) -> None:
    source = raw(tmp_path / "a.gsm", "GSM610")
    source.write_bytes(source.read_bytes()[:-20])
    recording = decode(item(source))
    assert recording.seconds == pytest.approx(2.0, abs=0.1)
    assert not recording.truncated


def test_g729_by_its_length_alone(tmp_path: Path) -> None:
    # ffmpeg has no encoder for it: ten bytes are ten milliseconds.
    (tmp_path / "a.g729").write_bytes(np.random.default_rng(0).bytes(2000))
    recording = decode(item(tmp_path / "a.g729"))
    assert (recording.seconds, probe(item(tmp_path / "a.g729")).sample_rate) == (2.0, 8000)


def test_a_g722_file_of_an_odd_length(tmp_path: Path) -> None:
    source = encoded(tmp_path / "a.g722", "g722", tone(2.0), container="g722")
    source.write_bytes(source.read_bytes() + b"x")
    assert decode(item(source)).seconds == pytest.approx(2.0, abs=0.01)


def test_a_rule_that_departs_belongs_to_the_key_of_its_recordings_alone() -> None:
    def keys(name: str, own: dict[str, str]) -> list[str]:
        settings = RunSettings(
            Path("out"), ("txt",), (ModelKey("m", lambda options: "key"),), "txt", headerless=rules(own)
        )
        return settings.inference_keys_for(item(Path(name)))

    assert keys("a.wav", {"ul": "mulaw 16000"}) == keys("a.ul", {}) == keys("a.ul", {"ul": "mulaw 8000 1"}) == ["key"]
    changed = [keys("a.ul", {"ul": "mulaw 16000"}), keys("a.ul", {"ul": "alaw"}), keys("a.x", {"x": "alaw"})]
    assert changed[0] != changed[1] == changed[2] != ["key"] != changed[0]
    assert departure(Path("a.x"), rules({"x": "alaw"})) == "alaw 8000 1"


def test_the_documentation_names_them_all() -> None:
    text = (Path(__file__).parents[1] / "docs" / "audio.md").read_text("utf-8")
    table = dict(re.findall(r"^\| (`\.[^|]+) \| ([\w.-]+)", text, re.MULTILINE))
    documented = {name: encoding for names, encoding in table.items() for name in re.findall(r"`\.([^`]+)`", names)}
    assert set(documented) == set(DEFAULTS)
    assert all(documented[name] == rule.encoding for name, rule in DEFAULTS.items() if rule.encoding[:5] != "g726-")
    encodings = text[text.index("Encodings: `") + 12 :].split("`")[0]
    assert encodings.split() == list(ENCODINGS)
    example = tomllib.loads(text[text.index("```toml") + 7 :].split("```")[0])
    assert set(rules(example["decode"]["raw"])) == {*DEFAULTS, "vox8", "pcm"}
