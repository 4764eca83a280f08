from __future__ import annotations

from typing import Any

import pytest

from mlxbatch.engines.whisper.layout import (
    CONV_WEIGHTS,
    Dims,
    canonical_name,
    expected_shapes,
    is_hugging_face,
    mlx_shape,
)

MLX = {
    "n_mels": 80,
    "n_audio_ctx": 1500,
    "n_audio_state": 64,
    "n_audio_head": 2,
    "n_audio_layer": 2,
    "n_vocab": 1000,
    "n_text_ctx": 448,
    "n_text_state": 64,
    "n_text_head": 4,
    "n_text_layer": 3,
}
HUGGING_FACE = {
    "num_mel_bins": 80,
    "max_source_positions": 1500,
    "d_model": 64,
    "encoder_attention_heads": 2,
    "encoder_layers": 2,
    "vocab_size": 1000,
    "max_target_positions": 448,
    "decoder_attention_heads": 4,
    "decoder_layers": 3,
}


def test_both_kinds_of_config_mean_the_same() -> None:
    assert Dims.from_config(MLX | {"model_type": "whisper"}) == Dims.from_config(HUGGING_FACE) == Dims(**MLX)


@pytest.mark.parametrize("config", [MLX, HUGGING_FACE])
def test_a_missing_key_is_named(config: dict[str, int]) -> None:
    for key in config:
        rest = {name: value for name, value in config.items() if name != key}
        # Without d_model a Hugging Face config is still one by its encoder_layers, and the other way round.
        with pytest.raises(ValueError, match=f"key '{key}' is missing"):
            Dims.from_config(rest)


@pytest.mark.parametrize("value", [0, -1, 1.5, "80", None, True, [80]])
def test_an_invalid_value_is_named(value: Any) -> None:
    with pytest.raises(ValueError, match="key 'n_mels' must be a whole number above 0"):
        Dims.from_config(MLX | {"n_mels": value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_audio_head": 3}, "n_audio_state is 64, which n_audio_head = 3 does not divide"),
        ({"n_text_head": 5}, "n_text_state is 64, which n_text_head = 5 does not divide"),
        ({"n_text_state": 128}, "n_audio_state is 64 but n_text_state is 128"),
    ],
)
def test_sizes_that_cannot_be_together(change: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Dims.from_config(MLX | change)


def test_shapes_are_those_of_mlx_audios_model() -> None:
    from mlx.utils import tree_flatten
    from mlx_audio.stt.models.whisper.whisper import Model, ModelDimensions

    model = Model(ModelDimensions(**MLX))
    parameters = {name: tuple(value.shape) for name, value in tree_flatten(model.parameters())}
    assert expected_shapes(Dims(**MLX)) == parameters


def test_hugging_face_names_cover_every_weight() -> None:
    names = hugging_face_names(Dims(**MLX))
    canonical = [canonical_name(name) for name in names]
    assert set(canonical) - {None} == set(expected_shapes(Dims(**MLX)))
    assert len(canonical) == len(set(canonical)) + 1  # two are dropped


def hugging_face_names(dims: Dims) -> list[str]:
    """All names in a Hugging Face checkpoint, written out independently of the mapping."""
    names = ["proj_out.weight"]
    names += [f"model.encoder.conv{i}.{kind}" for i in (1, 2) for kind in ("weight", "bias")]
    names += ["model.decoder.embed_tokens.weight"]
    for side, layers in (("encoder", dims.n_audio_layer), ("decoder", dims.n_text_layer)):
        names += [f"model.{side}.embed_positions.weight"]
        names += [f"model.{side}.layer_norm.{kind}" for kind in ("weight", "bias")]
        for layer in range(layers):
            block = f"model.{side}.layers.{layer}"
            attentions = ("self_attn", "encoder_attn") if side == "decoder" else ("self_attn",)
            for attention in attentions:
                for part in ("q_proj", "v_proj", "out_proj"):
                    names += [f"{block}.{attention}.{part}.{kind}" for kind in ("weight", "bias")]
                names += [f"{block}.{attention}.k_proj.weight"]
            parts = [f"{attention}_layer_norm" for attention in attentions] + ["fc1", "fc2", "final_layer_norm"]
            names += [f"{block}.{part}.{kind}" for part in parts for kind in ("weight", "bias")]
    return names


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("model.encoder.embed_positions.weight", None),
        ("encoder.embed_positions.weight", None),
        ("proj_out.weight", None),
        ("model.decoder.embed_positions.weight", "decoder.positional_embedding"),
        ("decoder.layers.11.encoder_attn.k_proj.weight", "decoder.blocks.11.cross_attn.key.weight"),
        ("model.decoder.embed_tokens.scales", "decoder.token_embedding.scales"),
        ("model.decoder.layers.0.fc1.biases", "decoder.blocks.0.mlp1.biases"),
        ("encoder.blocks.0.attn.query.weight", "encoder.blocks.0.attn.query.weight"),
        ("alignment_heads", "alignment_heads"),
    ],
)
def test_canonical_names(name: str, canonical: str | None) -> None:
    assert canonical_name(name) == canonical


def test_mlx_names_stay() -> None:
    for name in expected_shapes(Dims(**MLX)):
        assert canonical_name(name) == name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("model.encoder.conv1.weight", True),
        ("encoder.layers.0.fc1.weight", True),
        ("encoder.blocks.0.mlp1.weight", False),
        ("encoder.conv1.weight", False),
    ],
)
def test_whose_names_they_are(name: str, expected: bool) -> None:
    assert is_hugging_face([name]) is expected


def test_only_hugging_faces_convolutions_are_turned() -> None:
    assert {"encoder.conv1.weight", "encoder.conv2.weight"} == CONV_WEIGHTS
    assert mlx_shape("encoder.conv1.weight", (64, 80, 3), hugging_face=True) == (64, 3, 80)
    assert mlx_shape("encoder.conv1.weight", (64, 3, 80), hugging_face=False) == (64, 3, 80)
    assert mlx_shape("encoder.conv1.bias", (64,), hugging_face=True) == (64,)
