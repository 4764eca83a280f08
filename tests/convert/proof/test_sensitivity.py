"""What each width costs each group of layers, measured on tiny weights."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import pytest

from mlxbatch.convert.proof import sensitivity as measuring
from mlxbatch.convert.proof.allocation import Sensitivity, fitting, precision
from mlxbatch.convert.proof.clips import Clip, Clips
from mlxbatch.convert.proof.hearing import profile_spec
from mlxbatch.convert.proof.prove import prove
from mlxbatch.convert.proof.sensitivity import read, sensitivity, write
from mlxbatch.errors import SetupError, UsageError
from tests.engines.whisper.parts import short_whisper
from tests.models.tiny import write_json

from .packed import pack
from .test_clips import write as write_wav


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return short_whisper(tmp_path_factory.mktemp("sensitivity") / "model", n_text_ctx=24)


@pytest.fixture(scope="module")
def noises(tmp_path_factory: pytest.TempPathFactory) -> Clips:
    folder = tmp_path_factory.mktemp("noises")
    return Clips("noises", tuple(Clip(write_wav(folder / f"{name}.wav", 0.5), None, "en") for name in ("a", "bb")))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLXBATCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def found(tiny: Path, noises: Clips, tmp_path_factory: pytest.TempPathFactory) -> Sensitivity:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLXBATCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        return sensitivity(tiny, noises, "full", spec=profile_spec())


def test_each_group_is_measured_at_each_width(found: Sensitivity) -> None:
    blocks = [f"decoder.blocks.{number}" for number in (0, 1)]
    sides = [*blocks, *(f"{block}.{part}" for block in blocks for part in ("attn", "cross_attn"))]
    assert set(found.groups) == {*sides, "decoder", "encoder.blocks.0", "encoder.blocks.0.attn"}
    for group in found.groups.values():
        assert [width.bits for width in group.widths] == [2, 3, 4, 5, 6, 8]
        assert group.widths[0].nats > group.widths[2].nats > group.widths[-1].nats > 0
        assert group.widths[-1].bytes == group.plain_bytes * 8.5 / 16


def test_bytes_are_those_of_the_file(found: Sensitivity, tiny: Path, tmp_path: Path) -> None:
    """But for the header, and for positions, which are no weight that is stored."""
    packed = pack(tiny, tmp_path / "packed", 4)
    stored = sum(array.nbytes for array in mx.load(str(packed / "model.safetensors")).values())
    fours = sum(width.bytes for group in found.groups.values() for width in group.widths if width.bits == 4)
    assert found.fixed_bytes + fours == stored


def test_a_group_alone_costs_what_the_proof_measures(
    found: Sensitivity, tiny: Path, noises: Clips, tmp_path: Path
) -> None:
    """The decoder's embedding in 3 bits, all else plain: as converted, and as it was measured in memory."""
    others = {layer: False for group in found.groups.values() for layer in group.layers}
    packed = pack(tiny, tmp_path / "one", 3, own={**others, "decoder.token_embedding": 3})
    figures = prove(tiny, packed, noises, "full", task="transcribe").recognition
    assert figures is not None
    assert figures.divergence is not None
    three = next(width for width in found.groups["decoder"].widths if width.bits == 3)
    assert three.nats == pytest.approx(figures.divergence.mean.value, rel=1e-3)


def test_it_is_measured_once(found: Sensitivity, tiny: Path, noises: Clips, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(measuring, "_measure", lambda *_: calls.append(1) or found)
    for _ in range(2):
        assert sensitivity(tiny, noises, "full", spec=profile_spec()) == found
    sensitivity(tiny, noises, "full", spec=profile_spec(), group_size=32)
    sensitivity(tiny, Clips("one", noises.clips[:1]), "full", spec=profile_spec())
    assert len(calls) == 3


def test_it_is_read_as_it_was_written(found: Sensitivity, tmp_path: Path) -> None:
    write(found, tmp_path / "sensitivity.json")
    assert read(tmp_path / "sensitivity.json") == found
    (tmp_path / "sensitivity.json").write_text("{}")
    with pytest.raises(SetupError, match="no record of a model's sensitivity"):
        read(tmp_path / "sensitivity.json")


def test_a_recipe_of_it_can_be_converted(found: Sensitivity) -> None:
    fours = sum(width.bytes for group in found.groups.values() for width in group.widths if width.bits == 4)
    made = precision(found, fitting(found, found.fixed_bytes + fours))
    assert set(made.packed) | set(made.kept) == {layer for group in found.groups.values() for layer in group.layers}


def test_no_whisper_no_speech_and_no_layer(tiny: Path, noises: Clips, tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {"model_type": "parakeet"})
    with pytest.raises(UsageError, match="of Whispers only"):
        sensitivity(tmp_path, noises, "full", spec=profile_spec())
    with pytest.raises(UsageError, match="no layer in it can be quantized in groups of 128"):
        sensitivity(tiny, noises, "full", spec=profile_spec(), group_size=128, layers=["decoder.token_embedding"])
