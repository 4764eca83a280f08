"""How far weights are apart, and what they take."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mlxbatch.convert.proof.layers import layer_errors, weights
from mlxbatch.errors import SetupError
from tests.models.tiny import write_tiny_whisper

from .packed import pack


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_whisper(tmp_path_factory.mktemp("layers") / "model")


def test_a_model_is_not_away_from_itself(tiny: Path) -> None:
    assert layer_errors(tiny, tiny).errors == ()


def test_each_packed_layer_has_its_error_and_bits(tiny: Path, tmp_path: Path) -> None:
    layer, plain = "encoder.blocks.0.mlp1", "decoder.token_embedding"
    found = layer_errors(tiny, pack(tiny, tmp_path / "packed", 4, own={layer: 8, plain: False}))
    errors = {one.layer: one for one in found.errors}
    assert (errors[layer].bits, errors[layer].group_size, errors[layer].mode) == (8, 64, "affine")
    assert plain not in errors
    assert len(errors) == 2 * 6 + 2 * 10  # of two layers each side
    weight = mx.array(load_file(tiny / "model.safetensors")["decoder.blocks.0.mlp1.weight"])
    away = np.asarray(mx.dequantize(*mx.quantize(weight, 64, 4), 64, 4), np.float64) - np.asarray(weight, np.float64)
    expected = np.linalg.norm(away) / np.linalg.norm(np.asarray(weight, np.float64))
    assert errors["decoder.blocks.0.mlp1"].error == pytest.approx(expected, rel=1e-5)
    assert errors[layer].error < 0.1 * errors["encoder.blocks.1.mlp1"].error


def test_a_plain_weight_is_named_where_it_is_another(tiny: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny, tmp_path / "other")
    tensors = load_file(tiny / "model.safetensors")
    tensors["encoder.conv1.bias"] *= 2
    save_file(tensors, tmp_path / "other" / "model.safetensors")
    (found,) = layer_errors(tiny, tmp_path / "other").errors
    assert (found.layer, found.bits) == ("encoder.conv1.bias", None)
    assert found.error == pytest.approx(1.0)


def test_an_original_in_hugging_faces_layout(tiny: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny, tmp_path / "other")
    norm = {"encoder.ln_post.bias": "model.encoder.layer_norm.bias"}
    names = {"encoder.conv1.weight": "model.encoder.conv1.weight", **norm}
    tensors = load_file(tiny / "model.safetensors")
    renamed = {hf: tensors[name] for name, hf in names.items()}
    renamed["model.encoder.conv1.weight"] = np.ascontiguousarray(renamed["model.encoder.conv1.weight"].swapaxes(1, 2))
    save_file(renamed, tmp_path / "other" / "model.safetensors")
    found = layer_errors(tmp_path / "other", tiny)
    assert found.errors == ()
    assert set(found.unknown) == set(tensors) - set(names)


def test_another_shape_is_refused(tiny: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny, tmp_path / "other")
    tensors = load_file(tiny / "model.safetensors")
    tensors["encoder.conv1.bias"] = np.zeros(3, np.float16)
    save_file(tensors, tmp_path / "other" / "model.safetensors")
    with pytest.raises(SetupError, match=r"encoder\.conv1\.bias has shape \[3\], and \[64\] in the original"):
        layer_errors(tiny, tmp_path / "other")


def test_a_truncated_file_is_named(tiny: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny, tmp_path / "other")
    whole = (tiny / "model.safetensors").read_bytes()
    (tmp_path / "other" / "model.safetensors").write_bytes(whole[:-100])
    with pytest.raises(SetupError, match=r"model\.safetensors: no readable safetensors file"):
        layer_errors(tiny, tmp_path / "other")


def test_bits_a_weight_count_scales_and_offsets(tiny: Path, tmp_path: Path) -> None:
    plain, packed = weights(tiny), weights(pack(tiny, tmp_path / "packed", 4))
    assert plain.parameters == packed.parameters == sum(t.size for t in load_file(tiny / "model.safetensors").values())
    assert plain.bits_per_weight == pytest.approx(16.0, abs=0.5)  # the header counts
    assert packed.bytes == (tmp_path / "packed" / "model.safetensors").stat().st_size
    # 4 bits and 2 x 16 for each 64, but for convolutions, norms, biases and positions.
    matrices = sum(t.size for t in load_file(tiny / "model.safetensors").values() if t.ndim == 2) - 448 * 64
    rest = plain.parameters - matrices
    assert packed.bits_per_weight == pytest.approx((matrices * 4.5 + rest * 16) / plain.parameters, abs=0.5)
    assert plain.sha256 != packed.sha256
    assert json.loads((tmp_path / "packed" / "config.json").read_text())["quantization"]["bits"] == 4
