"""Silero's ONNX file: every tensor found, nothing run, anything else refused."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from mlxbatch.convert.onnx import read_tensors
from mlxbatch.convert.silero import BRANCHES, convert_silero
from mlxbatch.errors import SetupError
from mlxbatch.vad.check import check_silero
from mlxbatch.vad.layout import NETWORKS, expected_shapes
from tests.convert.onnx_bytes import constant, part, tensor, varint
from tests.vad.tiny import write_tiny_silero


def silero(tensors: dict[str, np.ndarray]) -> bytes:
    """A graph whose `If` holds constants in a branch, as the exporter writes them."""
    branch = b"".join(constant(name, values) for name, values in tensors.items())
    return part(1, 8) + part(7, part(1, part(2, b"out") + part(5, part(6, branch))))


def stored(rate: int) -> dict[str, np.ndarray]:
    """What the file holds for one rate, under the exporter's names."""
    rng, prefix, shapes = np.random.default_rng(rate), BRANCHES[rate], expected_shapes(rate)
    window, both = shapes["stft.weight"]
    sizes = {"stft.forward_basis_buffer": (both, 1, window)}
    for layer in range(4):
        k, into, out = shapes[f"conv{layer}.weight"]
        sizes[f"encoder.{layer}.reparam_conv.weight"] = (out, into, k)
        sizes[f"encoder.{layer}.reparam_conv.bias"] = (out,)
    sizes |= {"decoder.rnn.weight_ih": (512, 128), "decoder.rnn.weight_hh": (512, 128)}
    sizes |= {"decoder.rnn.bias_ih": (512,), "decoder.rnn.bias_hh": (512,)}
    sizes |= {"decoder.decoder.2.weight": (1, 128, 1), "decoder.decoder.2.bias": (1,)}
    return {prefix + name: rng.standard_normal(size).astype(np.float32) for name, size in sizes.items()}


def write(directory: Path, data: bytes) -> Path:
    directory.mkdir()
    (directory / "silero_vad.onnx").write_bytes(data)
    return directory


def test_both_networks_become_a_whole_directory(tmp_path: Path) -> None:
    both = stored(16_000) | stored(8_000)
    convert_silero(write(tmp_path / "source", silero(both)), tmp_path / "made")
    check_silero(tmp_path / "made")


def test_a_missing_tensor_and_a_wrong_shape_are_named(tmp_path: Path) -> None:
    both = stored(16_000) | stored(8_000)
    name = BRANCHES[8_000] + "decoder.rnn.weight_hh"
    less = {key: value for key, value in both.items() if key != name}
    with pytest.raises(ValueError, match=r"silero_vad.onnx: the tensor .*weight_hh is missing"):
        convert_silero(write(tmp_path / "a", silero(less)), tmp_path / "made")
    with pytest.raises(ValueError, match=r"lstm.hidden has shape \[128, 4\], \[128, 512\] is needed"):
        convert_silero(write(tmp_path / "b", silero(both | {name: np.zeros((4, 128), np.float32)})), tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_tensors_are_read_in_each_of_their_forms(tmp_path: Path) -> None:
    packed = part(1, varint(2) + varint(300)) + part(2, 1) + part(8, b"packed") + part(4, bytes(2400))
    counts = part(1, 1) + part(2, 7) + part(8, b"counts") + part(9, struct.pack("<q", 5))
    graph = part(5, packed) + part(5, counts) + part(5, tensor(np.array(2.5, np.float32), "scalar"))
    path = tmp_path / "model.onnx"
    path.write_bytes(part(7, graph))
    found = read_tensors(path)
    assert {name: values.shape for name, values in found.items()} == {"packed": (2, 300), "scalar": ()}
    assert found["scalar"] == 2.5


@pytest.mark.parametrize("cut", [1, 2, 5, 60, 700, 5000])
def test_what_is_cut_short_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(silero({"x": np.zeros((40, 40), np.float32)})[:-cut])
    with pytest.raises(ValueError, match=r"ends early|not a whole ONNX file|cannot take"):
        read_tensors(path)


@pytest.mark.parametrize("data", [b"\xff" * 40, b"{}" * 100, b"PK\3\4" * 50, bytes(range(256))])
def test_other_files_hold_no_networks(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^silero_vad.onnx: "):
        convert_silero(write(tmp_path / "source", data), tmp_path / "made")


def test_a_directory_of_another_model_is_refused(tmp_path: Path) -> None:
    (write_tiny_silero(tmp_path / "made") / "config.json").write_text('{"model_type": "whisper"}')
    with pytest.raises(SetupError, match="a 'whisper' model, not Silero VAD"):
        check_silero(tmp_path / "made")
    with pytest.raises(SetupError, match="no such model directory"):
        check_silero(tmp_path / "nothing")


def test_there_is_a_network_for_each_rate() -> None:
    assert sorted(NETWORKS) == sorted(BRANCHES) == [8_000, 16_000]
