"""What an allocation loses in words, heard in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlxbatch.convert.proof import loss
from mlxbatch.convert.proof.allocation import Allocation, Group, Sensitivity
from mlxbatch.convert.proof.clips import Clip, Clips, Sound
from mlxbatch.convert.proof.hearing import profile_spec
from mlxbatch.convert.proof.loss import Losses
from mlxbatch.convert.proof.ratio import Estimate
from mlxbatch.errors import UsageError
from tests.engines.whisper.parts import short_whisper

from .test_clips import write

EMBEDDING = Sensitivity("m", "c", 64, "float16", 0, 1, {"words": Group(("decoder.token_embedding",), 1, ())})
PLAIN, TWO_BITS = Allocation({"words": None}, 0, 0.0), Allocation({"words": 2}, 0, 0.0)


def sounds(folder: Path, text: str | None) -> list[Sound]:
    names = [write(folder / f"{name}.wav", 0.5) for name in ("a", "bb")]
    return Clips("noises", tuple(Clip(path, text, "en") for path in names)).sounds("full")


def test_plain_weights_lose_nothing_before_and_after_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said is looked at letter by letter: these weights say no words."""
    model = short_whisper(tmp_path / "model", n_text_ctx=24)
    monkeypatch.setattr(loss, "text_errors", _letters)
    losses = Losses(model, sounds(tmp_path, "K"), profile_spec(), EMBEDDING)
    assert losses.at(PLAIN) == Estimate(0.0, 0.0)
    assert losses.at(TWO_BITS).value != 0.0
    assert losses.at(PLAIN) == Estimate(0.0, 0.0)


def _letters(texts: list[str], said: list[str], spoken: list[str]) -> list[loss.Errors]:
    return [
        loss.Errors(sum(letter not in text for letter in other), 1) for text, other in zip(texts, said, strict=True)
    ]


def test_clips_without_texts_lose_no_words(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no clip has one"):
        Losses(tmp_path / "model", sounds(tmp_path, None), profile_spec(), EMBEDDING)
