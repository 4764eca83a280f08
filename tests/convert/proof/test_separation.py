"""The figures of two separators, which is a filter of a few lines here."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mlxbatch.convert.proof import separation
from mlxbatch.convert.proof.clips import Clip, Sound
from mlxbatch.convert.proof.hearing import profile_spec
from mlxbatch.convert.proof.separation import separate

RATE = 16_000


class Scale:
    """Gives back what it gets; a `rough` one rounds it."""

    def __init__(self, directory: Path) -> None:
        self._rough = directory.name == "rough"

    def enhance(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.round(samples * 10) / 10 if self._rough else samples


@pytest.fixture
def sounds() -> list[Sound]:
    """Tones, which pink noise has little of."""
    return [
        Sound(Clip(Path(f"{hertz}")), np.sin(2 * np.pi * hertz * np.arange(RATE) / RATE).astype(np.float32))
        for hertz in (300, 700)
    ]


def test_a_separator_is_itself(sounds: list[Sound], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(separation, "DeepFilter", Scale)
    found = separate(Path("a"), Path("a"), sounds, profile_spec(), lambda text: None)
    assert found.figures.between == math.inf
    assert found.figures.clean.original == found.figures.clean.converted == pytest.approx(5.0, abs=0.5)
    assert found.original.audio_seconds == pytest.approx(2.0)


def test_a_rougher_one_is_away_from_it_and_from_the_speech(
    sounds: list[Sound], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(separation, "DeepFilter", Scale)
    found = separate(Path("a"), Path("rough"), sounds, profile_spec(), lambda text: None)
    assert 20 < found.figures.between < 40
    assert found.figures.clean.converted < found.figures.clean.original
