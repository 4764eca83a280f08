"""Silero VAD's ONNX file as a checkpoint; `silero` makes the detector's directory of it without MLX."""

from __future__ import annotations

from pathlib import Path

from mlxbatch.convert.checkpoint import Checkpoint, Origin
from mlxbatch.convert.fitting import Found, fitted
from mlxbatch.convert.silero import CONFIG, name_of, silero_tensors
from mlxbatch.vad.layout import NETWORKS, expected_shapes


def read_silero(source: Path, origin: Origin) -> Checkpoint:
    """The checkpoint in a directory with silero_vad.onnx. ValueError that names the file at fault and what is wrong."""
    found: dict[str, Found] = {name: (values.shape, values.copy) for name, values in silero_tensors(source).items()}
    needed = {name_of(rate, name): shape for rate in NETWORKS for name, shape in expected_shapes(rate).items()}
    notices = {path.name: path for path in sorted(source.glob("LICENSE*"))}
    # It has no layers of MLX's own that could be packed.
    return Checkpoint("silero_vad", "vad", CONFIG, fitted(found, needed), frozenset(), notices, origin)
