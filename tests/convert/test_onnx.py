"""Nodes, small integers and dequantization; that whole files are read and others refused is in test_silero."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mlxbatch.convert.onnx import Node, dequantized, module_path, read_graph
from tests.convert.onnx_bytes import model, node, part, tensor, varint

WORDS = np.arange(-3, 3, dtype=np.int8).reshape(2, 3)


def test_small_integers_are_read_as_they_are_and_stay_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model({"signed": WORDS, "unsigned": WORDS.view(np.uint8), "counts": np.arange(3)}))
    tensors = read_graph(path).tensors
    assert set(tensors) == {"signed", "unsigned"}
    assert (tensors["signed"].dtype, tensors["unsigned"].dtype) == (np.int8, np.uint8)
    np.testing.assert_array_equal(tensors["signed"], WORDS)
    assert not tensors["signed"].flags.owndata


def test_small_integers_may_be_varints() -> None:
    """Protobuf writes a negative number as one of 64 bits."""
    packed = part(1, 2) + part(2, 3) + part(8, b"packed") + part(5, varint(2**64 - 5) + varint(7))
    single = part(2, 2) + part(8, b"single") + part(5, 200)
    tensors = read_graph(part(7, part(5, packed) + part(5, single))).tensors
    assert tensors["packed"].tolist() == [-5, 7]
    assert (tensors["single"].shape, int(tensors["single"])) == ((), 200)


def test_nodes_tell_what_goes_in_and_comes_out_those_of_branches_too() -> None:
    inner = node("Conv", "/in/Conv", ["y", "w"], ["z"])
    branch = part(1, part(4, b"If") + part(3, b"/If") + part(5, part(6, inner)))
    graph = read_graph(model({"w": WORDS}, [node("MatMul", "/a/MatMul", ["x", ""], ["y"]), branch]))
    assert graph.nodes == (
        Node("MatMul", "/a/MatMul", ("x", ""), ("y",)),
        Node("If", "/If", (), ()),
        Node("Conv", "/in/Conv", ("y", "w"), ("z",)),
    )
    assert graph.tensor("w").shape == (2, 3)
    with pytest.raises(ValueError, match="the tensor v is missing"):
        graph.tensor("v")


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("/decoder/decoder/encode/conv1/Conv_quant", "decoder.decoder.encode.conv1"),
        ("/encoder/text_encoder/cnn.0/cnn.0.1/Conv", "encoder.text_encoder.cnn.0.1"),
        ("/erb_conv1/0/Conv", "erb_conv1.0"),
        ("MatMul_7", ""),
    ],
)
def test_a_nodes_module(name: str, path: str) -> None:
    assert module_path(Node("", name, (), ())) == path


def test_dequantized_by_one_scale_or_one_a_row_or_a_column() -> None:
    half, none, three = np.array(0.5, np.float32), np.array(0, np.int8), np.array(253, np.uint8)
    assert dequantized(WORDS, half, none, axis=0).tolist() == [[-1.5, -1.0, -0.5], [0.0, 0.5, 1.0]]
    assert dequantized(WORDS.view(np.uint8), half, three, axis=0)[0].tolist() == [0.0, 0.5, 1.0]
    rows, columns = np.array([1, 2], np.float32), np.array([1, 2, 3], np.float32)
    assert dequantized(WORDS, rows, np.array([1, 0], np.int8), axis=0).tolist() == [[-4, -3, -2], [0, 2, 4]]
    assert dequantized(WORDS, columns, np.zeros(3, np.int8), axis=1).tolist() == [[-3, -4, -3], [0, 2, 6]]
    with pytest.raises(ValueError, match="2 scales or zero points for 3 rows"):
        dequantized(WORDS, rows, none, axis=1)


def test_weights_in_a_file_of_their_own_are_refused() -> None:
    outside = tensor(np.zeros(0, np.float32), "w") + part(14, 1)
    with pytest.raises(ValueError, match="'w' is kept in a file of its own"):
        read_graph(part(7, part(5, outside)))


def test_bytes_that_are_no_whole_numbers_are_refused() -> None:
    odd = part(1, 2) + part(2, 1) + part(8, b"w") + part(9, bytes(9))
    with pytest.raises(ValueError, match=r"'w' of shape \[2\] cannot take 9 bytes"):
        read_graph(part(7, part(5, odd)))
