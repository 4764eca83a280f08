"""What the converter asks of the proof."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlxbatch.convert.origin import Origin
from mlxbatch.convert.precision import Precision
from mlxbatch.convert.proof import card, quality
from mlxbatch.convert.proof.clips import Clip, Clips, shipped
from mlxbatch.convert.proof.conversion import Loss, Size, clips_of, foresee, precision_for, proven
from mlxbatch.convert.proof.gates import Gates
from mlxbatch.errors import QualityLost, UsageError
from tests.engines.whisper.parts import short_whisper

from .packed import pack
from .test_clips import write


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return short_whisper(tmp_path_factory.mktemp("conversion") / "model", n_text_ctx=24)


@pytest.fixture(scope="module")
def noises(tmp_path_factory: pytest.TempPathFactory) -> Clips:
    folder = tmp_path_factory.mktemp("noises")
    return Clips("noises", tuple(Clip(write(folder / f"{name}.wav", 0.5), "the", "en") for name in ("a", "bb")))


def test_a_proven_directory_has_its_record_and_its_card(tiny: Path, noises: Clips, tmp_path: Path) -> None:
    made = pack(tiny, tmp_path / "made", 4)
    chosen = Precision({}, "float16", {"encoder.odd": "too narrow"})
    found = proven(tiny, made, noises, "quick", Gates(), task="transcribe", origin=Origin("a/b", "c"), chosen=chosen)
    assert quality.read(made / quality.FILE) == found
    assert (found.kept, found.dtype) == (chosen.kept, "float16")
    assert (made / card.FILE).read_text("utf-8") == card.card(found)


def test_a_limit_that_is_exceeded_leaves_the_record_behind(tiny: Path, noises: Clips, tmp_path: Path) -> None:
    made = pack(tiny, tmp_path / "made", 4)
    gates = Gates(max_kl=1e-9)
    with pytest.raises(QualityLost):
        proven(tiny, made, noises, "quick", gates, task="transcribe", origin=None, chosen=Precision())
    assert quality.find(made) is not None


def test_clips_are_those_asked_for_or_those_that_ship(tmp_path: Path) -> None:
    assert clips_of(None) == shipped()
    write(tmp_path / "a.wav")
    assert len(clips_of(tmp_path).clips) == 1


@pytest.mark.parametrize(
    ("architecture", "gates", "message"),
    [
        ("whisper", Gates(max_wer_loss=0.3), "have 70 words"),
        ("kokoro", Gates(max_wer_loss=0.3), "have 16 words"),
        ("silero", Gates(max_wer_loss=0.3), "no words to measure of a silero model"),
        ("parakeet", Gates(max_kl=0.01), "of Whispers only"),
    ],
)
def test_what_cannot_be_told_is_refused_before_the_work(architecture: str, gates: Gates, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        foresee(shipped(), "quick", gates, architecture)
    foresee(shipped(), "quick", Gates(), architecture)


def test_a_goal_becomes_a_precision(tiny: Path, noises: Clips, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLXBATCH_CACHE", str(tmp_path))
    told: list[str] = []
    small, found = precision_for(Size(600_000), tiny, noises, "full", say=told.append)
    assert found.groups.keys() >= {"encoder.blocks.0.attn", "decoder"}
    assert small.packed
    told.clear()
    large, again = precision_for(Loss(60.0), tiny, noises, "full", say=told.append)
    assert again == found
    assert all("points of word error rate lost" in line for line in told), "sensitivity is measured once"
    assert len(large.packed) + len(large.kept) == len(small.packed) + len(small.kept)
    with pytest.raises(UsageError, match="words, of which one is more than that limit"):
        precision_for(Loss(0.3), tiny, noises, "full")
