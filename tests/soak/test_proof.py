"""Proofs of real conversions: of the recipe that sensitivity makes, of a voice, of a separator."""

from __future__ import annotations

import shutil
from pathlib import Path

import mlx.core as mx
import pytest

from mlxbatch.convert.proof.allocation import Allocation, Group, Sensitivity, fitting, precision
from mlxbatch.convert.proof.clips import shipped
from mlxbatch.convert.proof.hearing import profile_spec
from mlxbatch.convert.proof.layers import Stored
from mlxbatch.convert.proof.loss import Losses
from mlxbatch.convert.proof.prove import prove
from mlxbatch.convert.proof.quality import Quality
from mlxbatch.convert.proof.sensitivity import sensitivity
from tests.convert.proof.packed import pack

pytestmark = [pytest.mark.soak, pytest.mark.real, pytest.mark.timeout(3600)]


def nats(found: Quality) -> float:
    assert found.recognition is not None
    assert found.recognition.divergence is not None
    return found.recognition.divergence.mean.value


def test_bits_where_they_count_beat_four_bits_everywhere(whisper_base: Path, tmp_path: Path) -> None:
    """In as many bytes, Whisper base diverges less; and of uniform widths the narrower diverges more."""
    four = pack(whisper_base, tmp_path / "4", 4)
    found = sensitivity(whisper_base, shipped(), "full", spec=profile_spec())
    room = sum(array.nbytes for array in mx.load(str(four / "model.safetensors")).values())
    chosen = precision(found, fitting(found, room))
    own = {layer: form.bits for layer, form in chosen.packed.items()} | dict.fromkeys(chosen.kept, False)
    recipe = pack(whisper_base, tmp_path / "recipe", 4, own=own)
    assert (recipe / "model.safetensors").stat().st_size <= 1.001 * (four / "model.safetensors").stat().st_size

    def proof(directory: Path) -> float:
        return nats(prove(whisper_base, directory, shipped(), "full", task="transcribe"))

    uniform = [proof(four if bits == 4 else pack(whisper_base, tmp_path / str(bits), bits)) for bits in (8, 6, 4, 3)]
    assert uniform == sorted(uniform)
    assert proof(recipe) < uniform[2]


def test_a_loss_in_memory_is_that_of_the_conversion(whisper_base: Path, tmp_path: Path) -> None:
    """A block of Whisper base's encoder in 2 bits, which is too few."""
    parts = ("attn.query", "attn.key", "attn.value", "attn.out", "mlp1", "mlp2")
    layers = tuple(f"encoder.blocks.3.{part}" for part in parts)
    alone = Sensitivity("m", "c", 64, "float16", 0, 1, {"both": Group(layers, 1, ())})
    losses = Losses(whisper_base, shipped().sounds("full"), profile_spec(), alone)
    plain = {name.removesuffix(".weight"): False for name in Stored(whisper_base).names()}
    made = pack(whisper_base, tmp_path / "made", 2, own={**plain, **dict.fromkeys(layers, 2)})
    found = prove(whisper_base, made, shipped(), "full", task="transcribe")
    assert found.wer_loss == losses.at(Allocation({"both": 2}, 0, 0.0))
    assert found.wer_loss.value > 0


def test_kokoro_is_itself_and_understood(kokoro_82m: Path, whisper_base: Path, ge2e: Path) -> None:
    found = prove(kokoro_82m, kokoro_82m, shipped(), "quick", task="synthesize").synthesis
    assert found is not None
    assert (found.duration.value, found.distance) == (1.0, pytest.approx(0.0, abs=1e-6))
    assert found.likeness == pytest.approx(1.0, abs=1e-4)
    assert found.wer is not None
    assert found.wer.original == found.wer.converted < 0.1


def test_deepfilternet_is_itself_and_narrower_numbers_are_near(deepfilternet3: Path, tmp_path: Path) -> None:
    narrow = Path(shutil.copytree(deepfilternet3, tmp_path / "narrow"))
    weights = mx.load(str(deepfilternet3 / "model.safetensors"))
    mx.save_safetensors(
        str(narrow / "model.safetensors"), {name: one.astype(mx.bfloat16) for name, one in weights.items()}
    )
    same, near = (
        prove(deepfilternet3, one, shipped(), "quick", task="separate").separation for one in (deepfilternet3, narrow)
    )
    assert same is not None
    assert near is not None
    assert same.between == float("inf")
    assert 10 < near.between < 80
    assert same.clean.original > 7  # of 5 dB in the mixture
