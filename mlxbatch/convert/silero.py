"""Silero VAD as a model directory: the ONNX file's two networks, for 8 and 16 kHz, in MLX's layout, float32."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from mlxbatch.convert.onnx import Tensor, read_tensors
from mlxbatch.vad.layout import NETWORKS, expected_shapes

MODEL = "silero_vad.onnx"
# The exporter inlined one network into each branch of a test for the sample rate.
BRANCHES = {16_000: "If_0_then_branch__Inline_0__", 8_000: "If_0_else_branch__Inline_0__"}


CONFIG: Mapping[str, Any] = {"model_type": "silero_vad", "sample_rates": sorted(NETWORKS)}


def convert_silero(source: Path, target: Path) -> None:
    """Write the model directory `target` from the package's `source/silero_vad.onnx`.

    `target` is made, and must not exist. Raises ValueError that names the file at fault and what is wrong with it.
    """
    tensors = silero_tensors(source)
    target.mkdir(parents=True)
    save_file(tensors, target / "model.safetensors", metadata={"format": "mlx"})
    (target / "config.json").write_text(json.dumps(CONFIG, indent=1) + "\n", "utf-8")
    # safetensors makes its file private to the user; a cache shared by a group needs it like the others.
    shutil.copymode(target / "config.json", target / "model.safetensors")
    if (source / "LICENSE").exists():
        shutil.copyfile(source / "LICENSE", target / "LICENSE")


def silero_tensors(source: Path) -> dict[str, Tensor]:
    """Both networks' weights from the package's file, as of `convert_silero`."""
    try:
        stored = read_tensors(source / MODEL)
        return dict(pair for rate in BRANCHES for pair in _network(stored, rate))
    except ValueError as error:
        raise ValueError(f"{MODEL}: {error}") from error


def _network(stored: Mapping[str, Tensor], rate: int) -> Iterator[tuple[str, Tensor]]:
    """One network's weights; a convolution's go [out, in, k] -> [k, in, out], ready to multiply from the right."""
    found = dict(_renamed(stored, BRANCHES[rate]))
    for name, shape in expected_shapes(rate).items():
        if found[name].shape != shape:
            raise ValueError(f"{name} has shape {list(found[name].shape)}, {list(shape)} is needed")
        yield name_of(rate, name), np.ascontiguousarray(found[name])


def name_of(rate: int, name: str) -> str:
    return f"{rate}.{name}"


def _renamed(stored: Mapping[str, Tensor], prefix: str) -> Iterator[tuple[str, Tensor]]:
    def get(name: str) -> Tensor:
        if prefix + name not in stored:
            raise ValueError(f"the tensor {prefix + name} is missing")
        return stored[prefix + name]

    yield "stft.weight", get("stft.forward_basis_buffer")[:, 0].T
    for layer in range(4):
        yield f"conv{layer}.weight", get(f"encoder.{layer}.reparam_conv.weight").transpose(2, 1, 0)
        yield f"conv{layer}.bias", get(f"encoder.{layer}.reparam_conv.bias")
    yield "lstm.input", get("decoder.rnn.weight_ih").T
    yield "lstm.hidden", get("decoder.rnn.weight_hh").T
    yield "lstm.bias", get("decoder.rnn.bias_ih") + get("decoder.rnn.bias_hh")
    yield "out.weight", get("decoder.decoder.2.weight")[0]
    yield "out.bias", get("decoder.decoder.2.bias").reshape(1)
