"""The figures of two voices, which a model of a few lines speaks with here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mlxbatch.convert.proof import synthesis
from mlxbatch.convert.proof.hearing import profile_spec
from mlxbatch.convert.proof.sentences import QUICK, SENTENCES
from mlxbatch.convert.proof.synthesis import Spoken, speak
from mlxbatch.errors import SetupError
from tests.models.tiny import write_json


class Whistle:
    """Says each phoneme as 50 ms of noise from the seed; a `slow` one takes twice as long, a `low` one is less loud."""

    sample_rate = 24_000

    def __init__(self, directory: Path, *_: Any, **__: Any) -> None:
        self._name = directory.name

    def speak(self, phonemes: str, seed: int) -> NDArray[np.float32]:
        length = len(phonemes) * (2400 if self._name == "slow" else 1200)
        noise = np.random.default_rng(seed).standard_normal(length) * (0.05 if self._name == "low" else 0.1)
        return np.asarray(noise, np.float32)


@pytest.fixture
def voices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("original", "slow", "low"):
        (tmp_path / name / "voices").mkdir(parents=True)
        (tmp_path / name / "voices" / "af_heart.safetensors").touch()
        write_json(tmp_path / name / "config.json", {"model_type": "kokoro"})
    monkeypatch.setattr(synthesis, "Kokoro", Whistle)
    monkeypatch.setenv("MLXBATCH_CACHE", str(tmp_path / "empty"))
    return tmp_path


def spoken(voices: Path, name: str, level: Any = "quick") -> Spoken:
    return speak(voices / "original", voices / name, level, profile_spec(), lambda text: None)


def test_a_voice_is_itself(voices: Path) -> None:
    found = spoken(voices, "original")
    assert (found.figures.sentences, found.figures.voice) == (QUICK, "af_heart")
    assert found.figures.duration.value == 1.0
    assert found.figures.distance == pytest.approx(0.0, abs=1e-6)
    assert found.original.arithmetic == "float32"
    assert found.original.audio_seconds == pytest.approx(sum(len(one.phonemes) for one in SENTENCES[:QUICK]) * 0.05)


def test_a_slower_voice_and_one_that_is_less_loud(voices: Path) -> None:
    assert spoken(voices, "slow").figures.duration.value == pytest.approx(2.0, rel=1e-3)
    assert spoken(voices, "low").figures.distance == pytest.approx(6.02, rel=0.05)


def test_what_is_not_on_this_machine_is_not_measured(voices: Path) -> None:
    found = spoken(voices, "original")
    assert (found.figures.likeness, found.figures.wer) == (None, None)
    assert found.not_measured[0].startswith("likeness of the voices: ")
    assert found.not_measured[1].startswith("whether it is understood: whisper-base is not on this machine")


def test_all_sentences_where_all_are_to_be_heard(voices: Path) -> None:
    assert spoken(voices, "original", "full").figures.sentences == len(SENTENCES)


def test_a_directory_without_a_voice(voices: Path) -> None:
    (voices / "original" / "voices" / "af_heart.safetensors").unlink()
    with pytest.raises(SetupError, match="no voice in it"):
        spoken(voices, "original")
