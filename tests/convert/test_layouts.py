"""The layouts are those of mlx-audio's models, to the last weight."""

from __future__ import annotations

from typing import Any

import pytest

from mlxbatch.convert import deepfilter_layout, ge2e_layout, kokoro_layout
from mlxbatch.convert.file_layout import is_turned
from mlxbatch.convert.kokoro_layout import expected_shapes, quantizable
from mlxbatch.convert.onnx_deepfilter import _config
from mlxbatch.convert.onnx_kokoro import CONFIG
from mlxbatch.convert.resemblyzer import CONFIG as GE2E
from tests.convert.test_onnx_deepfilter import SETTINGS

DEEPFILTER = _config(SETTINGS.encode())


def of_model(model: Any) -> dict[str, tuple[int, ...]]:
    from mlx.utils import tree_flatten

    return {name: values.shape for name, values in tree_flatten(model.parameters())}


@pytest.fixture(scope="module")
def kokoro() -> Any:
    from mlx_audio.tts.models.kokoro import Model, ModelConfig

    return Model(ModelConfig.from_dict({**CONFIG, "vocab": {}}))


def test_kokoros(kokoro: Any) -> None:
    assert expected_shapes(CONFIG) == of_model(kokoro)


def test_what_mlx_can_quantize_of_kokoro(kokoro: Any) -> None:
    assert quantizable(CONFIG) == {path for path, one in kokoro.named_modules() if hasattr(one, "to_quantized")}


def test_what_mlx_audio_turns_round_as_it_loads_kokoro(kokoro: Any) -> None:
    """Where a layer is quantized (it has scales) nothing is turned."""
    import mlx.core as mx

    expected = expected_shapes(CONFIG)

    def in_file(name: str, packed: bool) -> mx.array:
        shape = expected[name]
        turned = is_turned("kokoro", name, shape, packed=packed)
        return mx.zeros((*shape[:-2], shape[-1], shape[-2]) if turned else shape)

    plain = {name: in_file(name, packed=False) for name in expected}
    assert {name: values.shape for name, values in kokoro.sanitize(plain).items()} == expected
    packed = {name: in_file(name, packed=True) for name in expected} | {"bert_encoder.scales": mx.zeros(1)}
    loaded = {name: values.shape for name, values in kokoro.sanitize(packed).items()}
    assert {name: loaded[name] for name in expected} == expected


def test_a_square_convolution_stays_as_it_is() -> None:
    assert not is_turned("kokoro", "decoder.a.weight_v", (8, 3, 3), packed=False)
    assert is_turned("kokoro", "decoder.a.weight_v", (2, 3, 3), packed=False)
    assert not is_turned("whisper", "decoder.a.weight_v", (8, 5, 3), packed=False)


def test_deepfilternets() -> None:
    """Its loader maps PyTorch's names to its own, and takes what a GRU's reset and update gates share elsewhere."""
    from mlx_audio.sts.models.deepfilternet.config import DeepFilterNetConfig
    from mlx_audio.sts.models.deepfilternet.network import DfNet
    from mlx_audio.sts.models.deepfilternet.weight_loader import get_weight_mapping

    ours, theirs = (
        deepfilter_layout.expected_shapes(DEEPFILTER),
        of_model(DfNet(DeepFilterNetConfig.from_dict(DEEPFILTER))),
    )
    mapping = get_weight_mapping(set(ours), set(theirs))
    assert set(mapping) == set(ours)
    assert set(mapping.values()) == set(theirs)
    whole = {name: (3 * shape[0],) if name.endswith(".bhn") else shape for name, shape in theirs.items()}
    assert ours == {name: whole[mapping[name]] for name in ours}


def test_ge2es() -> None:
    from mlx_audio.tts.models.chatterbox.voice_encoder import VoiceEncoder
    from mlx_audio.tts.models.chatterbox.voice_encoder.config import VoiceEncConfig

    config = VoiceEncConfig(**{name: value for name, value in GE2E.items() if name != "model_type"})
    assert config == VoiceEncConfig()
    assert ge2e_layout.expected_shapes(GE2E) == of_model(VoiceEncoder(config))


@pytest.mark.parametrize("lacking", ["hidden_dim", "plbert", "istftnet"])
def test_a_config_without_a_size(lacking: str) -> None:
    with pytest.raises(KeyError, match=lacking):
        kokoro_layout.expected_shapes({name: value for name, value in CONFIG.items() if name != lacking})
