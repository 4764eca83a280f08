"""Recordings to try models on: those that ship, a folder's, a manifest's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from mlxbatch.convert.proof import clips
from mlxbatch.convert.proof.clips import RATE, Clip, Clips, calibration, shipped
from mlxbatch.errors import ItemError, UsageError


def write(path: Path, seconds: float = 0.1) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(len(path.name)).standard_normal(round(seconds * RATE)) / 10
    soundfile.write(path, noise, RATE)
    return path


def test_those_that_ship_have_texts_and_are_in_the_public_domain() -> None:
    found = shipped()
    assert len(found.clips) == 5
    assert all(clip.text and clip.language == "en" for clip in found.clips)
    sources = (found.clips[0].path.parents[1] / "SOURCES.md").read_text("utf-8")
    assert all(f"books/{clip.path.name}` | pocketsphinx" in sources for clip in found.clips)
    sounds = found.sounds("quick")
    assert len(sounds) == 5
    told = found.described(sounds, 67)
    assert (told.clips, told.words) == (5, 67)
    assert told.seconds == pytest.approx(24.73, abs=0.05)


def test_a_folder_with_texts_beside(tmp_path: Path) -> None:
    one, two = write(tmp_path / "a.wav"), write(tmp_path / "deep" / "b.flac")
    (tmp_path / "deep" / "b.txt").write_bytes(b"\xef\xbb\xbf What is said.\n")
    (tmp_path / "notes.md").write_text("no recording")
    assert calibration(tmp_path).clips == (Clip(one), Clip(two, "What is said."))


def test_a_csv(tmp_path: Path) -> None:
    write(tmp_path / "a.wav")
    (tmp_path / "list.csv").write_text('path,text,language\na.wav,"Well, yes.",German\n')
    assert calibration(tmp_path / "list.csv").clips == (Clip(tmp_path / "a.wav", "Well, yes.", "de"),)


def test_json_lines_may_hold_more_and_an_empty_text_is_one(tmp_path: Path) -> None:
    write(tmp_path / "a.wav")
    write(tmp_path / "b.wav")
    rows = [{"path": "a.wav", "text": "", "licence": "CC0"}, {"path": "b.wav", "language": "en"}]
    (tmp_path / "list.jsonl").write_text("\n\n".join(map(json.dumps, rows)))
    found = calibration(tmp_path / "list.jsonl").clips
    assert found == (Clip(tmp_path / "a.wav", ""), Clip(tmp_path / "b.wav", None, "en"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("list.jsonl", '{"path": "gone.wav"}', "line 1: no such file: gone.wav"),
        ("list.jsonl", '{"text": "who?"}', "line 1: no path"),
        ("list.jsonl", "[1]", "line 1: not a JSON object"),
        ("list.jsonl", '{"path": 3}', "line 1: path is no text"),
        ("list.jsonl", "{", "line 1: not JSON"),
        ("list.jsonl", "", "no recordings in it"),
        ("list.csv", "path,text,words\n", "unknown column 'words'"),
        ("list.csv", "path,language\nhere.wav,klingon\n", "line 2: unknown language 'klingon'"),
        ("list.csv", "path,text\n,hello\n", "line 2: no path"),
        ("gone.csv", None, "cannot be read"),
    ],
)
def test_a_manifest_that_cannot_be_understood(tmp_path: Path, name: str, content: str | None, message: str) -> None:
    write(tmp_path / "here.wav")
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(UsageError, match=message):
        calibration(tmp_path / name)


def test_a_text_that_is_no_utf_8(tmp_path: Path) -> None:
    write(tmp_path / "a.wav")
    (tmp_path / "a.txt").write_bytes("grün".encode("latin-1"))
    with pytest.raises(UsageError, match=r"a\.txt: not UTF-8"):
        calibration(tmp_path)


def test_a_quick_proof_hears_what_fits_and_one_in_any_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clips, "QUICK", 0.25)
    found = Clips("here", tuple(Clip(write(tmp_path / f"{name}.wav", 0.1)) for name in "abcd"))
    assert [sound.clip.path.name for sound in found.sounds("quick")] == ["a.wav", "b.wav"]
    assert len(found.sounds("full")) == 4
    long = Clips("here", (Clip(write(tmp_path / "long.wav", 0.5)),))
    assert len(long.sounds("quick")) == 1


def test_a_recording_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"RIFF")
    with pytest.raises(ItemError, match="decode"):
        calibration(tmp_path).sounds("full")


def test_the_hash_is_of_content_and_text_alone(tmp_path: Path) -> None:
    one = write(tmp_path / "a.wav")
    same = Path(shutil.copy(one, tmp_path / "c.wav"))
    assert clips.sha256([Clip(one, "x")]) == clips.sha256([Clip(same, "x")])
    different = [Clip(one, "y"), Clip(one), Clip(one, "x", "en"), Clip(write(tmp_path / "other.wav"), "x")]
    assert len({clips.sha256([clip]) for clip in (Clip(one, "x"), *different)}) == 5


def test_another_rate(tmp_path: Path) -> None:
    (sound,) = Clips("here", (Clip(write(tmp_path / "a.wav", 1.0)),)).sounds("full")
    assert sound.at(RATE) is sound.samples
    assert len(sound.at(24_000)) == 24_000
