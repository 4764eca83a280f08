"""What options and recipes make of a model's layers."""

from __future__ import annotations

from collections import Counter

import pytest

from mlxbatch.convert.precision import Packing, Precision
from mlxbatch.convert.recipe import Asked, asked_for, notes, precision
from mlxbatch.errors import UsageError

WHISPER = {f"{side}.blocks.{n}.attn.query": (64, 64) for side in ("encoder", "decoder") for n in range(2)}
WHISPER |= {"decoder.token_embedding": (1900, 64)}


def of(asked: Asked, layers: dict[str, tuple[int, ...]] = WHISPER, **about: str) -> Precision:
    return precision(asked, layers, **{"architecture": "whisper", "task": "transcribe"} | about)


def refused(asked: Asked, layers: dict[str, tuple[int, ...]] = WHISPER, **about: str) -> str:
    with pytest.raises(UsageError) as caught:
        of(asked, layers, **about)
    return str(caught.value)


@pytest.mark.parametrize(("task", "bits"), [("transcribe", 6), ("synthesize", 8), ("separate", 8), ("vad", 8)])
def test_without_a_word_the_task_has_its_bits(task: str, bits: int) -> None:
    assert set(of(asked_for(), task=task).packed.values()) == {Packing(bits, 64)}


def test_a_dtype_alone_quantizes_nothing() -> None:
    assert of(asked_for(dtype="bfloat16")) == Precision(dtype="bfloat16")


def test_a_dtype_with_bits_is_for_all_else() -> None:
    found = of(asked_for(4, dtype="bfloat16"))
    assert found.dtype == "bfloat16"
    assert set(found.packed) == set(WHISPER)


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
@pytest.mark.parametrize("group", [32, 64])
def test_bits_and_groups(bits: int, group: int) -> None:
    assert set(of(asked_for(bits, group)).packed.values()) == {Packing(bits, group)}


@pytest.mark.parametrize(
    ("bits", "group", "said"),
    [
        (7, None, "--bits is 2, 3, 4, 5, 6 or 8, not '7' (MLX has none with 7)"),
        (16, None, "--bits is 2, 3, 4, 5, 6 or 8, not '16'"),
        (4, 48, "--group-size is 32, 64 or 128, not '48'"),
    ],
)
def test_what_mlx_does_not_have(bits: int, group: int | None, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        asked_for(bits, group)
    assert str(caught.value) == said


def test_a_narrow_layer_gets_the_next_smaller_group_and_one_too_narrow_stays_full() -> None:
    layers = {"wide": (8, 256), "narrow": (8, 96), "odd": (8, 80)}
    found = of(asked_for(4, 128), layers)
    assert found.packed == {"wide": Packing(4, 128), "narrow": Packing(4, 32)}
    assert found.kept == {"odd": "its width of 80 is no multiple of 32"}
    assert notes(found, asked_for(4, 128), "transcribe") == ["1 layer kept full: the width is no multiple of 32 (odd)"]


def test_a_group_that_fits_no_layer() -> None:
    said = "--group-size 128 divides no layer's width (64): 64 divides that of 5 layers"
    assert refused(asked_for(4, 128)) == said


def test_no_group_fits_any_layer() -> None:
    said = "no group that MLX has divides any layer's width (40, 80): give --dtype alone"
    assert refused(asked_for(4), {"a": (8, 80), "b": (8, 40)}) == said


def test_a_model_without_layers() -> None:
    assert of(asked_for(), {}) == Precision()
    assert "no layer of this model can be quantized" in notes(Precision(), asked_for(), "vad")[0]
    said = refused(asked_for(4), {}, architecture="silero_vad")
    assert said == "MLX can quantize no layer of a silero_vad model: give --dtype alone"


# ---- modes


def test_a_mode_has_its_own_bits_and_groups() -> None:
    found = of(asked_for(mode="mxfp4"), architecture="qwen3_asr")
    assert set(found.packed.values()) == {Packing(4, 32, "mxfp4")}


def test_a_mode_keeps_full_what_it_cannot_pack() -> None:
    """MLX 0.32 fails over an odd number of nvfp4's groups of 16."""
    found = of(asked_for(mode="nvfp4"), {"a": (29, 16), "b": (29, 32)}, architecture="qwen3_asr")
    assert found.packed == {"b": Packing(4, 16, "nvfp4")}
    assert found.kept == {"a": "its width of 16 is no multiple of 32"}


def test_a_mode_where_no_loader_takes_it() -> None:
    assert refused(asked_for(mode="mxfp8")).startswith("--mode mxfp8 is not for a whisper model: mlx-audio turns")
    assert "nobody has seen" in refused(asked_for(mode="nvfp4"), architecture="kokoro")


@pytest.mark.parametrize(("bits", "group"), [(8, None), (None, 64)])
def test_a_mode_with_other_bits_or_groups(bits: int | None, group: int | None) -> None:
    with pytest.raises(UsageError, match="--mode mxfp4 has 4 bits in groups of 32"):
        asked_for(bits, group, "mxfp4")


def test_a_mode_with_a_recipe_of_other_bits() -> None:
    with pytest.raises(UsageError, match="the recipe asks for others"):
        asked_for(mode="mxfp4", recipe="encoder8-decoder4")


# ---- recipes


def test_the_encoder_in_eight_bits() -> None:
    found = of(asked_for(recipe="encoder8-decoder4"))
    assert {layer: form.bits for layer, form in found.packed.items()} == {
        layer: 8 if layer.startswith("encoder") else 4 for layer in WHISPER
    }


@pytest.mark.parametrize("tower", ["audio_tower", "model.speech_encoder", "acoustic_encoder"])
def test_an_encoder_by_another_name(tower: str) -> None:
    layers = {f"{tower}.layers.0.fc1": (64, 64), "language_model.lm_head": (64, 64)}
    assert Counter(form.bits for form in of(asked_for(recipe="encoder8-decoder4"), layers).packed.values()) == {
        8: 1,
        4: 1,
    }


def test_a_model_without_an_encoder() -> None:
    assert refused(asked_for(recipe="encoder8-decoder4"), {"bert.a": (64, 64)}) == (
        "recipe encoder8-decoder4: this model has no encoder whose layers can be quantized; "
        "take --bits, or a recipe of your own"
    )


def test_a_named_recipe_says_all_bits() -> None:
    with pytest.raises(UsageError, match="leave --bits out"):
        asked_for(4, recipe="encoder8-decoder4")


def test_an_unknown_recipe_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown recipe 'encoder8'; did you mean 'encoder8-decoder4'\?"):
        asked_for(recipe="encoder8")


# ---- voices


def test_few_bits_and_large_groups_are_told_of_a_voice_alone() -> None:
    layers = {"a": (8, 128)}
    found = of(asked_for(4, 128), layers, task="synthesize")
    told = notes(found, asked_for(4, 128), "synthesize")
    assert told == [
        "4 bits are few for a voice: compare by ear, or take 8",
        "groups of 128 are large for a voice: compare by ear, or take 64",
    ]
    assert notes(found, asked_for(4, 128), "transcribe") == []
    eight = of(asked_for(), layers, task="synthesize")
    assert notes(eight, asked_for(), "synthesize") == []
