"""A model directory -> the network, with every weight of it and no other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from mlxbatch.convert.erb import filterbanks
from mlxbatch.engines.deepfilter.folding import Weights
from mlxbatch.engines.deepfilter.network import Network
from mlxbatch.engines.deepfilter.sizes import Sizes
from mlxbatch.errors import SetupError, show
from mlxbatch.models.architecture import read_json
from mlxbatch.models.exact import check_deepfilter
from mlxbatch.models.weights import AGAIN, weight_files


def load(directory: Path) -> Network:
    """SetupError that names the file at fault and what to do: not whole, damaged, or another model."""
    check_deepfilter(directory)
    config = directory / "config.json"
    try:
        sizes = Sizes.of(read_json(config))
    except (KeyError, TypeError, ValueError) as error:
        raise SetupError(f"{show(config)}: not a DeepFilterNet3's sizes ({error}); {AGAIN}") from error
    (path, *_) = weight_files(directory)
    weights = {name: values.astype(np.float32) for name, values in load_file(path).items()}
    _check_banks(path, weights, sizes)
    return Network(weights, sizes)


def _check_banks(path: Path, weights: Weights, sizes: Sizes) -> None:
    """The filterbanks that are stored say the same as the widths, which are what is computed with."""
    for name, bank in zip(("erb_fb", "mask.erb_inv_fb"), filterbanks(list(sizes.widths)), strict=True):
        if not np.allclose(weights[name], bank, atol=1e-6):
            raise SetupError(f"{show(path)}: {name} is not the filterbank of config.json's erb_widths; {AGAIN}")
