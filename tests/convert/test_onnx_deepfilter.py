"""DeepFilterNet3's archive: what is wrong with one is told; that a right one is heard is in test_packaged_real."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from mlxbatch.convert.checkpoint import Origin
from mlxbatch.convert.onnx import read_graph
from mlxbatch.convert.onnx_deepfilter import ARCHIVE, _weights, read_deepfilter
from tests.convert.onnx_bytes import model, node

SETTINGS = """
[df]
sr = 48000
fft_size = 960
hop_size = 480
nb_erb = 32
nb_df = 96
lsnr_max = 35
lsnr_min = -15
min_nb_erb_freqs = 2
df_order = 5
df_lookahead = 2
[deepfilternet]
conv_lookahead = 2
conv_ch = 64
conv_depthwise = True
convt_depthwise = False
conv_kernel = 1,3
convt_kernel = 1,3
conv_kernel_inp = 3,3
emb_hidden_dim = 256
emb_num_layers = 3
df_hidden_dim = 256
df_num_layers = 2
df_gru_skip = groupedlinear
df_pathway_kernel_size_t = 5
enc_linear_groups = 32
linear_groups = 16
enc_concat = False
mask_pf = False
"""
EMPTY = model({})
WHOLE = {"config.ini": SETTINGS.encode(), "enc.onnx": EMPTY, "erb_dec.onnx": EMPTY, "df_dec.onnx": EMPTY}


def archive(directory: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(directory / ARCHIVE, "w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(f"tmp/export/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return directory


def refused(directory: Path, files: dict[str, bytes]) -> str:
    with pytest.raises(ValueError, match=f"^{ARCHIVE}: ") as caught:
        read_deepfilter(archive(directory, files), Origin("here"))
    return str(caught.value).removeprefix(f"{ARCHIVE}: ")


def test_a_missing_weight_and_one_of_another_shape_are_named(tmp_path: Path) -> None:
    assert refused(tmp_path, WHOLE) == "the weight enc.erb_conv0.1.weight is missing"
    other = model({"erb_conv0.1.weight": np.zeros((64, 2), np.float32)})
    assert refused(tmp_path, WHOLE | {"enc.onnx": other}) == (
        "enc.erb_conv0.1.weight has shape [64, 2], [64, 1, 3, 3] is needed"
    )


def test_a_part_that_is_cut_short_or_lacks_a_tensor_is_named(tmp_path: Path) -> None:
    data = model({"erb_conv1.0.weight": np.zeros((64, 1, 1, 3), np.float32)})
    assert refused(tmp_path, WHOLE | {"enc.onnx": data[:-5]}).startswith("enc.onnx: the file ends early")
    lacking = model({}, [node("GRU", "/df_gru/gru/GRU", ["x", "w", "r", "b"])])
    assert refused(tmp_path, WHOLE | {"df_dec.onnx": lacking}) == "df_dec.onnx: the tensor w is missing"
    bare = model({"w": np.zeros(3, np.float32)}, [node("Conv", "/df_convp/1/Conv", ["x", "w"])])
    assert refused(tmp_path, WHOLE | {"df_dec.onnx": bare}).startswith("df_dec.onnx: ")


def test_an_archive_that_is_none_or_not_whole(tmp_path: Path) -> None:
    assert refused(tmp_path, {"config.ini": b""}) == "no enc.onnx in it"
    path = archive(tmp_path, WHOLE) / ARCHIVE
    data = path.read_bytes()
    for spoiled in (data[: len(data) // 2], b"PK" * 50, b""):
        path.write_bytes(spoiled)
        with pytest.raises(ValueError, match=f"^{ARCHIVE}: not a whole archive"):
            read_deepfilter(tmp_path, Origin("here"))


@pytest.mark.parametrize("wrong", [b"[df]\n", b"\xff", SETTINGS.replace("= 960", "= many").encode()])
def test_settings_that_are_none(tmp_path: Path, wrong: bytes) -> None:
    assert refused(tmp_path, WHOLE | {"config.ini": wrong}).startswith(
        "config.ini: not the settings of a DeepFilterNet"
    )


def test_normalization_that_was_folded_in_only_adds_the_bias() -> None:
    """As mlx-audio's BatchNorm computes it."""
    bias = np.array([1, -2], np.float32)
    tensors = {"a": np.ones((2, 1, 1, 3), np.float32), "b": np.ones((2, 2, 1, 1), np.float32), "c": bias}
    nodes = [node("Conv", "/df_conv0/1/Conv", ["x", "a"]), node("Conv", "/df_conv0/2/Conv", ["y", "b", "c"])]
    found = dict(_weights(read_graph(model(tensors, nodes))))
    assert {name for name in found if name.startswith("df_conv0")} == {
        "df_conv0.1.weight",
        "df_conv0.2.weight",
        *(f"df_conv0.3.{name}" for name in ("weight", "bias", "running_mean", "running_var")),
    }
    scale, mean, variance = (found[f"df_conv0.3.{name}"] for name in ("weight", "running_mean", "running_var"))
    x = np.array([3, 4], np.float32)
    np.testing.assert_allclose((x - mean) / np.sqrt(variance + 1e-5) * scale + bias, x + bias, rtol=1e-6)


def test_a_gru_says_the_same_in_mlx() -> None:
    """Against the operator's definition with linear_before_reset, gates update, reset, new (onnx/docs/Operators.md)."""
    rng, hidden = np.random.default_rng(0), 3
    w, r = (rng.standard_normal((1, 3 * hidden, hidden)).astype(np.float32) for _ in range(2))
    b = rng.standard_normal((1, 6 * hidden)).astype(np.float32)
    graph = read_graph(model({"w": w, "r": r, "b": b}, [node("GRU", "/emb_gru/GRU", ["x", "w", "r", "b"])]))
    found = {name: values for name, values in _weights(graph) if name.startswith("emb_gru")}
    gru = nn.GRU(hidden, hidden)
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    gru.Wx, gru.Wh, gru.b, states = (mx.array(found[f"emb_gru.gru.{name}_l0"]) for name in names)
    assert not mx.any(states[: 2 * hidden])
    gru.bhn = states[2 * hidden :]
    x, h = rng.standard_normal(hidden).astype(np.float32), rng.standard_normal(hidden).astype(np.float32)

    def sigmoid(y: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-y))

    (wz, wr, wn), (rz, rr, rn) = np.split(w[0], 3), np.split(r[0], 3)
    bz, br, bn, sz, sr, sn = np.split(b[0], 6)
    update, reset = sigmoid(wz @ x + bz + rz @ h + sz), sigmoid(wr @ x + br + rr @ h + sr)
    new = np.tanh(wn @ x + bn + reset * (rn @ h + sn))
    np.testing.assert_allclose(
        np.asarray(gru(mx.array(x[None]), mx.array(h)))[0], (1 - update) * new + update * h, rtol=1e-5, atol=1e-6
    )
