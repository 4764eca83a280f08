"""DeepFilterNet3 from the ONNX files that its authors published: encoder, ERB decoder and DF decoder, float32.

The exporter folded batch normalization into the convolution before it: here it becomes one that only adds the bias.
"""

from __future__ import annotations

import configparser
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from mlxbatch.convert.checkpoint import Checkpoint, Origin
from mlxbatch.convert.deepfilter_layout import expected_shapes
from mlxbatch.convert.erb import erb_widths, filterbanks
from mlxbatch.convert.fitting import Found, fitted
from mlxbatch.convert.onnx import Graph, Node, Stored, Tensor, module_path, read_graph
from mlxbatch.convert.write import write_plain

ARCHIVE, SETTINGS = "DeepFilterNet3_onnx.tar.gz", "config.ini"
# PyTorch's names of the three parts by their files.
PARTS = {"enc.onnx": "enc", "erb_dec.onnx": "erb_dec", "df_dec.onnx": "df_dec"}
# Blocks of convolutions that begin with a padding, so that the first convolution has number 1.
PADDED = ("erb_conv0", "df_conv0", "df_convp")
EPSILON = 1e-5  # PyTorch's in batch normalization, and mlx-audio's

Named = Iterator[tuple[str, Tensor]]


def convert_deepfilter(source: Path, target: Path) -> None:
    """Write the model directory `target` from the authors' archive in `source`, DeepFilterNet3_onnx.tar.gz.

    `target` is made, and must not exist. Raises ValueError that names the file at fault and what is wrong with it.
    """
    write_plain(read_deepfilter(source, Origin(source.name)), target)


def read_deepfilter(source: Path, origin: Origin) -> Checkpoint:
    """The checkpoint in a directory as of `convert_deepfilter`. ValueError as there."""
    files = _unpacked(source / ARCHIVE)
    config = _config(files[SETTINGS])
    named = [pair for name, part in PARTS.items() for pair in _part(name, files[name], part)]
    found: dict[str, Found] = {name: (values.shape, values.copy) for name, values in [*named, *_banks(config)]}
    try:
        weights = fitted(found, expected_shapes(config))
    except ValueError as error:
        raise ValueError(f"{ARCHIVE}: {error}") from error
    notices = {path.name: path for path in sorted(source.glob("LICENSE*"))}
    # Of its layers only two with a single output could be packed.
    return Checkpoint("deepfilternet", "separate", config, weights, frozenset(), notices, origin)


def _unpacked(path: Path) -> dict[str, bytes]:
    """The archive's files by their own names; nothing is written."""
    try:
        with tarfile.open(path) as archive:
            members = [member for member in archive.getmembers() if member.isfile()]
            files = {PurePosixPath(m.name).name: file.read() for m in members if (file := archive.extractfile(m))}
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(f"{path.name}: not a whole archive ({error})") from error
    if missing := [name for name in (SETTINGS, *PARTS) if name not in files]:
        raise ValueError(f"{path.name}: no {missing[0]} in it")
    return files


def _part(name: str, data: bytes, part: str) -> Named:
    try:
        for path, values in _weights(read_graph(data)):
            yield f"{part}.{path}", values
    except (ValueError, IndexError) as error:  # a node with less, or of fewer dimensions, than the authors'
        raise ValueError(f"{ARCHIVE}: {name}: {error}") from error


def _weights(graph: Graph) -> Named:
    """PyTorch's names without the part's."""
    yield from ((name, values) for name, values in graph.tensors.items() if not name.startswith(("onnx::", "/")))
    yield from _convolutions(graph)
    yield from _recurrent(graph)
    for node in graph.nodes:
        if node.op == "MatMul" and node.inputs[1] in graph.tensors:
            yield f"{module_path(node)}.weight", graph.tensor(node.inputs[1]).T


def _convolutions(graph: Graph) -> Named:
    """Those of a block follow one another, and the last has the bias that is left of batch normalization."""
    blocks: dict[str, list[Node]] = {}
    for node in graph.nodes:
        if node.op in ("Conv", "ConvTranspose"):
            blocks.setdefault(_block(node), []).append(node)
    for block, nodes in blocks.items():
        first = 1 if block in PADDED else 0
        for number, node in enumerate(nodes, first):
            yield f"{block}.{number}.weight", graph.tensor(node.inputs[1])
        yield from _adding(f"{block}.{first + len(nodes)}", graph.tensor(nodes[-1].inputs[2]))


def _block(node: Node) -> str:
    return module_path(node).partition(".")[0]


def _adding(path: str, bias: Stored) -> Named:
    """Batch normalization that adds `bias` and does nothing else: its scale undoes the epsilon under its root."""
    yield f"{path}.weight", np.full(bias.shape, np.sqrt(1 + EPSILON), np.float32)
    yield f"{path}.bias", bias
    yield f"{path}.running_mean", np.zeros(bias.shape, np.float32)
    yield f"{path}.running_var", np.ones(bias.shape, np.float32)


def _recurrent(graph: Graph) -> Named:
    """A GRU's W [1, 3h, in], R [1, 3h, h] and B [1, 6h]: the inputs' bias, then the states'.

    The states' biases of its first two gates are added to the inputs', which is the same: mlx-audio's loader does so
    or does not, depending on the order in which Python goes through a set.
    """
    for layer, node in enumerate(node for node in graph.nodes if node.op == "GRU"):
        w, r, b = (graph.tensor(name)[0] for name in node.inputs[1:4])
        path, gates = f"{_block(node)}.gru", len(b) // 2
        inputs, states = _ordered(b[:gates]), _ordered(b[gates:])
        both = gates // 3 * 2
        yield f"{path}.weight_ih_l{layer}", _ordered(w)
        yield f"{path}.weight_hh_l{layer}", _ordered(r)
        yield f"{path}.bias_ih_l{layer}", np.concatenate([inputs[:both] + states[:both], inputs[both:]])
        yield f"{path}.bias_hh_l{layer}", np.concatenate([np.zeros_like(states[:both]), states[both:]])


def _ordered(rows: Stored) -> Tensor:
    """The gates from ONNX's order, update, reset, new, to PyTorch's and MLX's."""
    update, reset, new = np.split(rows, 3)
    return np.concatenate([reset, update, new])


def _banks(config: Mapping[str, Any]) -> Named:
    bands, inverse = filterbanks(config["erb_widths"])
    yield from (("erb_fb", bands), ("mask.erb_inv_fb", inverse))


def _config(data: bytes) -> dict[str, Any]:
    """config.json from the authors' config.ini, with mlx-audio's keys."""
    settings = configparser.ConfigParser(interpolation=None)
    try:
        settings.read_string(data.decode("utf-8"))
        df, net = settings["df"], settings["deepfilternet"]
        signal = {key: int(df[key]) for key in _SIGNAL}
        sizes = {key: int(net[key]) for key in _SIZES}
        flags = {key: net.getboolean(key) for key in _FLAGS}
        kernels = {key: [int(size) for size in net[key].split(",")] for key in _KERNELS}
        rate, least = int(df["sr"]), int(df["min_nb_erb_freqs"])
        widths = erb_widths(rate, signal["fft_size"], signal["nb_erb"], least)
        skip = {"df_gru_skip": net["df_gru_skip"]}
    except (configparser.Error, UnicodeDecodeError, KeyError, ValueError, IndexError) as error:
        raise ValueError(f"{ARCHIVE}: {SETTINGS}: not the settings of a DeepFilterNet ({error})") from error
    kind = {"model_type": "deepfilternet", "model_version": "DeepFilterNet3", "sample_rate": rate}
    return {**kind, **signal, "erb_widths": widths, **sizes, **flags, **kernels, **skip}


_SIGNAL = ("fft_size", "hop_size", "nb_erb", "nb_df", "df_order", "df_lookahead", "lsnr_max", "lsnr_min")
_SIZES = (
    *("conv_lookahead", "conv_ch", "emb_hidden_dim", "emb_num_layers", "df_hidden_dim", "df_num_layers"),
    *("df_pathway_kernel_size_t", "linear_groups", "enc_linear_groups"),
)
_FLAGS = ("conv_depthwise", "convt_depthwise", "enc_concat", "mask_pf")
_KERNELS = ("conv_kernel", "convt_kernel", "conv_kernel_inp")
