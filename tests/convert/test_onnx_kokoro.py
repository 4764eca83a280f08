"""Each form that Kokoro's export has a weight in, in small; the whole file is in test_packaged_real."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mlxbatch.convert.checkpoint import Origin
from mlxbatch.convert.onnx import read_graph
from mlxbatch.convert.onnx_kokoro import kokoro_weights, read_kokoro
from tests.convert.onnx_bytes import model, node

ORIGIN = Origin("here")
HALF, ZERO, THREE = np.array(0.5, np.float32), np.array(0, np.int8), np.array(3, np.uint8)


def found(tensors: dict[str, NDArray[np.generic]], *nodes: bytes) -> dict[str, NDArray[np.float32]]:
    """The weights of a graph, each of the shape that was told before it was read."""
    weights = {name: (shape, read()) for name, shape, read in kokoro_weights(read_graph(model(tensors, nodes)))}
    assert all(values.shape == shape and values.dtype == np.float32 for shape, values in weights.values())
    return {name: values for name, (_, values) in weights.items()}


def test_a_matrix_is_known_by_its_node_and_turned_round() -> None:
    columns = np.array([1, 2, 3], np.float32)
    tensors = {"m_quantized": np.arange(6, dtype=np.int8).reshape(2, 3), "m_scale": columns, "z": ZERO}
    name = "/encoder/bert/encoder/albert_layer_groups.0/albert_layers.0/ffn_3/MatMul_quant"
    weights = found(tensors, node("MatMulInteger", name, ["x", "m_quantized", "xz", "z"]))
    assert list(weights) == ["bert.encoder.albert_layer_groups.0.albert_layers.0.ffn.weight"]
    assert weights.popitem()[1].tolist() == [[0, 3], [2, 8], [6, 15]]


def test_a_zero_point_that_is_left_out_is_zero() -> None:
    tensors = {"m_quantized": np.full((1, 2), 6, np.int8), "m_scale": HALF}
    weights = found(tensors, node("MatMulInteger", "/encoder/bert_encoder/MatMul_quant", ["x", "m_quantized", "xz"]))
    assert weights["bert_encoder.weight"].tolist() == [[3], [3]]


def test_a_layer_that_runs_again_is_one_layer() -> None:
    tensors = {"m_quantized": np.ones((2, 3), np.int8), "m_scale": HALF, "z": ZERO}
    runs = [
        node("MatMulInteger", f"/encoder/bert/query{again}/MatMul_quant", ["x", "m_quantized", "xz", "z"])
        for again in ("", "_1", "_11")
    ]
    assert list(found(tensors, *runs)) == ["bert.query.weight"]


def test_a_convolution_becomes_direction_and_length() -> None:
    stored = np.arange(12, dtype=np.uint8).reshape(2, 3, 2)
    conv = node("ConvInteger", "/decoder/decoder/encode/conv1/Conv_quant", ["x", "c_quantized", "xz", "z"])
    weights = found({"c_quantized": stored, "c_scale": HALF, "z": THREE}, conv)
    v, g = weights["decoder.encode.conv1.weight_v"], weights["decoder.encode.conv1.weight_g"]
    whole = (stored.astype(np.float32) - 3) / 2
    np.testing.assert_array_equal(v, whole.transpose(0, 2, 1))
    np.testing.assert_allclose(g * v / np.linalg.norm(v, axis=(1, 2), keepdims=True), v, rtol=1e-6)


@pytest.mark.parametrize("name", ["/encoder/F0_proj", "/decoder/decoder/generator/noise_convs.0"])
def test_a_plain_convolution_has_one_weight(name: str) -> None:
    tensors = {"c_quantized": np.ones((1, 4, 1), np.uint8), "c_scale": HALF, "z": THREE}
    (weight,) = found(tensors, node("ConvInteger", f"{name}/Conv_quant", ["x", "c_quantized", "xz", "z"]))
    assert weight in ("predictor.F0_proj.weight", "decoder.generator.noise_convs.0.weight")


def test_what_was_left_in_float_and_what_has_a_name() -> None:
    tensors = {
        "c": np.ones((2, 1, 3), np.float32),
        "decoder.decoder.decode.3.pool.bias": np.ones(2, np.float32),
        "encoder.text_encoder.cnn.0.1.gamma": np.full(2, 5, np.float32),
        "decoder.decoder.generator.resblocks.1.alpha1.0": np.ones((1, 2, 1), np.float32),
        "/decoder/Constant": np.ones(1, np.float32),
    }
    weights = found(tensors, node("ConvTranspose", "/decoder/decoder/decode.3/pool/ConvTranspose", ["x", "c"]))
    assert set(weights) == {
        "decoder.decode.3.pool.weight_v",
        "decoder.decode.3.pool.weight_g",
        "decoder.decode.3.pool.bias",
        "text_encoder.cnn.0.1.weight",
        "decoder.generator.resblocks.1.alpha1.0",
    }
    assert weights["text_encoder.cnn.0.1.weight"].tolist() == [5, 5]


def test_an_embedding_is_dequantized_after_its_rows_are_gathered() -> None:
    base = "encoder.text_encoder.embedding.weight"
    tensors = {f"{base}_quantized": np.full((3, 2), 4, np.int8), f"{base}_scale": HALF, "z": ZERO}
    nodes = (
        node("Gather", "/encoder/text_encoder/embedding/Gather_quant", [f"{base}_quantized", "tokens"], ["rows"]),
        node("DequantizeLinear", "/encoder/text_encoder/embedding/Gather_D", ["rows", f"{base}_scale", "z"]),
    )
    assert found(tensors, *nodes)["text_encoder.embedding.weight"].tolist() == [[2, 2]] * 3


def test_an_lstms_gates_are_put_in_mlxs_order() -> None:
    """One hidden unit: each gate is one row. ONNX has input, output, forget, cell."""
    gates = np.array([1, 2, 3, 4], np.int8)
    tensors = {
        "w": np.stack([gates[None], 10 * gates[None]]),
        "r": np.stack([gates[None], gates[None]]),
        "b": np.stack([np.arange(8), np.arange(8) + 10]).astype(np.float32),
        "ws": np.array([1, 0.5], np.float32),
        "rs": np.array([2, 3], np.float32),
        "z": np.zeros(2, np.int8),
    }
    inputs = ["x", "w", "r", "b", "", "h", "c", "", "ws", "z", "rs", "z"]
    weights = found(tensors, node("DynamicQuantizeLSTM", "/encoder/shared/LSTM_quant", inputs))
    assert weights["predictor.shared.Wx_forward"].ravel().tolist() == [1, 3, 4, 2]
    assert weights["predictor.shared.Wx_backward"].ravel().tolist() == [5, 15, 20, 10]
    assert weights["predictor.shared.Wh_forward"].ravel().tolist() == [2, 6, 8, 4]
    assert weights["predictor.shared.Wh_backward"].ravel().tolist() == [3, 9, 12, 6]
    assert weights["predictor.shared.bias_ih_forward"].tolist() == [0, 2, 3, 1]
    assert weights["predictor.shared.bias_hh_backward"].tolist() == [14, 16, 17, 15]


def test_a_scale_that_is_missing_is_named_when_it_is_needed() -> None:
    graph = read_graph(
        model(
            {"m_quantized": np.ones((2, 3), np.int8), "z": ZERO},
            [node("MatMulInteger", "/encoder/bert_encoder/MatMul_quant", ["x", "m_quantized", "xz", "z"])],
        )
    )
    (_, _, read) = next(kokoro_weights(graph))
    with pytest.raises(ValueError, match="the tensor m_scale is missing"):
        read()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A directory as the packages make it, but for a model without weights."""
    (tmp_path / "voices").mkdir()
    (tmp_path / "voices" / "af_heart.bin").write_bytes(bytes(510 * 256 * 4))
    (tmp_path / "vocab.json").write_text(json.dumps({"vocab": {"a": 43}}))
    (tmp_path / "kokoro.onnx").write_bytes(model({}))
    return tmp_path


WORDS = "encoder.bert.embeddings.word_embeddings.weight"


def test_a_missing_weight_is_named(source: Path) -> None:
    with pytest.raises(ValueError, match=r"^kokoro.onnx: the weight bert.embeddings.word_embeddings.weight is missing"):
        read_kokoro(source, ORIGIN)


def test_a_weight_of_another_shape_is_named(source: Path) -> None:
    tensors = {f"{WORDS}_quantized": np.zeros((3, 2), np.int8), f"{WORDS}_scale": HALF, "z": ZERO}
    name = "/encoder/bert/embeddings/word_embeddings/Gather_D"
    data = model(tensors, [node("DequantizeLinear", name, ["rows", f"{WORDS}_scale", "z"])])
    (source / "kokoro.onnx").write_bytes(data)
    with pytest.raises(ValueError, match=r"^kokoro.onnx: bert.* has shape \[3, 2\], \[178, 128\] is needed"):
        read_kokoro(source, ORIGIN)
    (source / "kokoro.onnx").write_bytes(data[:-9])
    with pytest.raises(ValueError, match=r"^kokoro.onnx: the file ends early"):
        read_kokoro(source, ORIGIN)


def test_a_node_that_is_not_kokoros_is_refused(source: Path) -> None:
    lstm = node("DynamicQuantizeLSTM", "/encoder/shared/LSTM_quant", ["x", "w", "w", "w", "", "", "", "", *"wwww"])
    (source / "kokoro.onnx").write_bytes(model({"w": np.zeros(3, np.int8)}, [lstm]))
    with pytest.raises(ValueError, match=r"^kokoro.onnx: "):
        read_kokoro(source, ORIGIN)


def test_bad_files_beside_the_model_are_named(source: Path) -> None:
    (source / "voices" / "af_sky.bin").write_bytes(bytes(12))
    with pytest.raises(ValueError, match=r"^voices/af_sky.bin: 12 bytes, a voice has 522240"):
        read_kokoro(source, ORIGIN)
    for path in (source / "voices").iterdir():
        path.unlink()
    with pytest.raises(ValueError, match=r"^voices: no voice \(\*.bin\) in it"):
        read_kokoro(source, ORIGIN)
    for text in ("{", "[]", '{"vocab": 1}', '{"vocab": {"a": "b"}}'):
        (source / "vocab.json").write_text(text)
        with pytest.raises(ValueError, match=r"^vocab.json: not a list of phonemes"):
            read_kokoro(source, ORIGIN)
    (source / "vocab.json").unlink()
    with pytest.raises(ValueError, match=r"^vocab.json: No such file"):
        read_kokoro(source, ORIGIN)
