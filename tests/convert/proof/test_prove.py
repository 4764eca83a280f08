"""The whole proof, on tiny weights and on Whisper base."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest

from mlxbatch.convert.proof.clips import Clip, Clips, shipped
from mlxbatch.convert.proof.gates import Gates
from mlxbatch.convert.proof.hearing import hear, profile_spec
from mlxbatch.convert.proof.prove import prove
from mlxbatch.convert.proof.quality import Rates
from mlxbatch.convert.proof.recognition import compared, forced_text, load
from mlxbatch.engines.whisper.abilities import Abilities
from mlxbatch.errors import QualityLost, SetupError
from tests.engines.whisper.parts import short_whisper
from tests.models.tiny import write_json

from .packed import pack
from .test_clips import write


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return short_whisper(tmp_path_factory.mktemp("prove") / "model", n_text_ctx=24)


@pytest.fixture(scope="module")
def noises(tmp_path_factory: pytest.TempPathFactory) -> Clips:
    folder = tmp_path_factory.mktemp("noises")
    return Clips("noises", tuple(Clip(write(folder / f"{name}.wav", 0.5), "the", "en") for name in ("a", "bb")))


def test_a_proof_of_tiny_weights_has_all_there_is_to_say(tiny: Path, noises: Clips, tmp_path: Path) -> None:
    stages: list[str] = []
    packed = pack(tiny, tmp_path / "packed", 4)
    found = prove(tiny, packed, noises, "quick", task="transcribe", say=stages.append)
    assert (found.task, found.architecture, found.not_measured) == ("transcribe", "whisper", ())
    assert found.calibration is not None
    assert (found.calibration.clips, found.calibration.words) == (2, 2)
    assert found.recognition is not None
    assert found.recognition.divergence is not None
    assert found.recognition.divergence.mean.value > 0
    assert found.recognition.wer is not None
    assert found.speed_original is not None
    assert found.speed_converted is not None
    assert (found.speed_original.arithmetic, found.speed_converted.arithmetic) == (
        "float32",
        "float32, weights dequantized on loading",
    )
    assert found.speed_original.peak_bytes > 0
    assert len(stages) == 4
    assert pickle.loads(pickle.dumps(found)) == found


def test_without_texts_the_models_are_compared_with_each_other(tiny: Path, noises: Clips) -> None:
    silent = Clips("noises", tuple(Clip(clip.path, None, "en") for clip in noises.clips))
    found = prove(tiny, tiny, silent, "full", task="transcribe")
    assert found.recognition is not None
    assert (found.recognition.changed, found.recognition.wer) == (0, None)
    assert found.not_measured == ("word error rates: no clip has a text",)


def test_without_a_proof_the_sizes_are_told(tiny: Path, noises: Clips) -> None:
    found = prove(tiny, tiny, noises, "none", task="transcribe")
    assert found.converted.bits_per_weight > 16
    assert (found.layers, found.recognition) == ((), None)
    assert found.not_measured == ("everything but sizes: --verify none",)


def test_of_another_family_weights_are_compared_and_that_is_said(tiny: Path, noises: Clips, tmp_path: Path) -> None:
    other = Path(shutil.copytree(tiny, tmp_path / "other"))
    write_json(other / "config.json", {"model_type": "qwen3_tts"})
    found = prove(other, other, noises, "quick", task="synthesize")
    assert (found.recognition, found.synthesis, found.architecture) == (None, None, "qwen3_tts")
    assert found.not_measured == ("what both models do: of qwen3_tts the weights alone are compared",)


def test_a_directory_that_is_no_model(tiny: Path, noises: Clips, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"config\.json: missing"):
        prove(tiny, tmp_path, noises, "quick", task="transcribe")


# ---- on real weights


def two_sentences() -> Clips:
    """The shortest of the clips that ship, 6 s."""
    return Clips("two sentences", tuple(shipped().clips[number] for number in (1, 4)))


@pytest.mark.real
def test_whisper_base_is_itself(whisper_base: Path) -> None:
    proof = prove(whisper_base, whisper_base, two_sentences(), "full", task="transcribe")
    found = proof.recognition
    assert found is not None
    assert found.divergence is not None
    assert (found.changed, found.failed, found.divergence.largest, found.divergence.same_top.value) == (0, 0, 0.0, 1.0)
    assert found.wer == Rates(0.0, 0.0)
    assert found.divergence.tokens > 15
    Gates(max_wer_loss=10.0, max_kl=1e-9).judge(proof)


@pytest.mark.real
def test_one_wrong_layer_of_whisper_base_is_caught(whisper_base: Path, tmp_path: Path) -> None:
    layer = "decoder.blocks.3.mlp1"
    damaged = pack(whisper_base, tmp_path / "damaged", 8, damaged=layer)
    found = prove(whisper_base, damaged, two_sentences(), "full", task="transcribe")
    assert max(found.layers, key=lambda one: one.error).layer == layer
    with pytest.raises(QualityLost, match=r"--max-kl 0\.01: the converted model loses"):
        Gates(max_kl=0.01).judge(found)


@pytest.mark.real
def test_fewer_bits_are_farther_away(whisper_base: Path, tmp_path: Path) -> None:
    """8 bits are within the limit that one wrong layer exceeds."""
    spec, sounds = profile_spec(), two_sentences().sounds("full")
    text = forced_text(sounds, hear(whisper_base, sounds, spec), Abilities.read(whisper_base))
    original = load(whisper_base, spec)
    eight, three = (
        compared(original, load(pack(whisper_base, tmp_path / str(bits), bits), spec), text, spec) for bits in (8, 3)
    )
    assert 0 < eight.mean.value < 0.01
    assert three.mean.value > 10 * eight.mean.value
    assert three.same_top.value < eight.same_top.value
