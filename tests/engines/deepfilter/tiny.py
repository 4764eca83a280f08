"""A DeepFilterNet3 of a few numbers, with weights of chance, and sound to put through it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from mlxbatch.convert.deepfilter_layout import expected_shapes
from mlxbatch.convert.erb import erb_widths, filterbanks
from mlxbatch.engines.deepfilter.network import Network
from mlxbatch.engines.deepfilter.sizes import Sizes

Array = NDArray[np.float32]

CONFIG: dict[str, Any] = {
    "model_type": "deepfilternet",
    "model_version": "DeepFilterNet3",
    "sample_rate": 3200,
    "fft_size": 64,
    "hop_size": 32,
    "nb_erb": 8,
    "erb_widths": erb_widths(3200, 64, 8, 2),
    "nb_df": 8,
    "df_order": 5,
    "df_lookahead": 2,
    "conv_lookahead": 2,
    "conv_ch": 8,
    "emb_hidden_dim": 8,
    "emb_num_layers": 3,
    "df_hidden_dim": 16,
    "df_num_layers": 2,
    "df_pathway_kernel_size_t": 5,
    "linear_groups": 4,
    "enc_linear_groups": 2,
    "conv_kernel": [1, 3],
    "convt_kernel": [1, 3],
    "conv_kernel_inp": [3, 3],
    "enc_concat": False,
    "mask_pf": False,
    "df_gru_skip": "groupedlinear",
}
SIZES = Sizes.of(CONFIG)


def tensors() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    found = {name: _tensor(name, shape, rng) for name, shape in expected_shapes(CONFIG).items()}
    return found | dict(zip(("erb_fb", "mask.erb_inv_fb"), filterbanks(CONFIG["erb_widths"]), strict=True))


def _tensor(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    values = rng.standard_normal(shape) * 0.4
    if name.endswith(("running_var", ".weight")) and len(shape) == 1:
        values = 1 + np.abs(values)
    return values.astype(np.float32)


def network() -> Network:
    return Network(tensors(), SIZES)


def write_tiny(directory: Path, weights: dict[str, Array] | None = None, **config: object) -> Path:
    directory.mkdir(parents=True)
    save_file(weights or tensors(), directory / "model.safetensors", metadata={"format": "mlx"})
    (directory / "config.json").write_text(json.dumps(CONFIG | config), "utf-8")
    return directory


def noise(samples: int, seed: int = 0, rows: int | None = None) -> Array:
    """Loud and soft in turn, [samples] or [rows, samples]."""
    rng = np.random.default_rng(seed)
    loud = 0.1 + 0.3 * (1 + np.sin(np.arange(samples) / 300))
    return (rng.standard_normal((samples,) if rows is None else (rows, samples)) * loud * 0.3).astype(np.float32)
