"""Which recordings are measured on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.corpus import Clip, Corpus, Noisy, seconds


def row(name: str, kind: str, **more: Any) -> dict[str, Any]:
    facts = {"id": name, "path": f"{name}.wav", "kind": kind, "duration_s": 4.0, "text": "one two", "language": "en"}
    return facts | {"decodes_soundfile": True} | more


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    rows = [
        row("sentence", "en_wer_bench", utt_style="sentence"),
        row("digits", "en_wer_bench", utt_style="digits"),
        row("long", "en_wer_bench", duration_s=30.5),
        row("silence", "telephony", text=""),
        row("g722", "telephony", decodes_soundfile=False),
        row("german", "telephony_prompt", language="de"),
        row("phone", "telephony"),
        row("edge", "edge"),
        row("call", "call_stereo", text=None, channel_texts={"1": "there", "0": "here"}),
        row("long_lj_chapter", "long", duration_s=232.0),
        row("other", "long"),
        row("street", "enhance_noisy", clean="speech.wav", snr_db=5),
        row("field", "enhance_noisy"),
    ]
    (tmp_path / "manifest.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows), "utf-8")
    return Corpus(tmp_path)


def names(clips: list[Clip]) -> list[str]:
    return [clip.path.stem for clip in clips]


def test_each_set_is_what_it_says(corpus: Corpus) -> None:
    assert names(corpus.sentences()) == ["sentence"]
    assert names(corpus.english_short()) == ["sentence", "digits", "phone"]
    assert corpus.chapter().path.stem == "long_lj_chapter"


def test_noise_is_measured_on_where_the_speech_alone_is_there(corpus: Corpus) -> None:
    assert corpus.noisy() == [Noisy(corpus.folder / "street.wav", corpus.folder / "speech.wav", 5)]


def test_a_call_has_the_text_of_each_channel_and_its_seconds_twice(corpus: Corpus) -> None:
    (call,) = corpus.calls()
    assert call.channels == ("here", "there")
    assert seconds([call, corpus.chapter()]) == 2 * 4.0 + 232.0


def test_without_recordings_it_says_how_to_name_them(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"manifest.jsonl is missing \(--data DIR"):
        Corpus(tmp_path).sentences()
