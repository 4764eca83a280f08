"""Alignment heads: the few cross-attention heads of a Whisper that follow the audio word by word. No MLX."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from mlxbatch.engines.whisper.layout import Dims
from mlxbatch.models.weights import weight_files

Head = tuple[int, int]
"""A layer of the decoder, and a head of its cross-attention."""

_NAME = "alignment_heads"

# Those that openai/whisper publishes with its weights (`_ALIGNMENT_HEADS`): layer.head, of a model by the layers and
# heads of its decoder and the size of its vocabulary. Large v1 has the sizes of v2, whose heads these are.
_PUBLISHED = {
    (4, 6, 51_864): "1.0 2.0 2.5 3.0 3.1 3.2 3.3 3.4",  # tiny.en
    (4, 6, 51_865): "2.2 3.0 3.2 3.3 3.4 3.5",  # tiny
    (6, 8, 51_864): "3.3 4.7 5.1 5.5 5.7",  # base.en
    (6, 8, 51_865): "3.1 4.2 4.3 4.7 5.1 5.2 5.4 5.6",  # base
    (12, 12, 51_864): (  # small.en
        "6.6 7.0 7.3 7.8 8.2 8.5 8.7 9.0 9.4 9.8 9.10 10.0 10.1 10.2 10.3 10.6 10.11 11.2 11.4"
    ),
    (12, 12, 51_865): "5.3 5.9 8.0 8.4 8.7 8.8 9.0 9.7 9.9 10.5",  # small
    (24, 16, 51_864): (  # medium.en
        "11.4 14.1 14.12 14.14 15.4 16.0 16.4 16.9 17.12 17.14 18.7 18.10 18.15 20.0 20.3 20.9 20.14 21.12"
    ),
    (24, 16, 51_865): "13.15 15.4 15.15 16.1 20.0 23.4",  # medium
    (32, 20, 51_865): (  # large v2
        "10.12 13.17 16.11 16.12 16.13 17.15 17.16 18.4 18.11 18.19 19.11 21.2 21.3 22.3 22.9 22.12 23.5 "
        "23.7 23.13 25.5 26.1 26.12 27.15"
    ),
    (32, 20, 51_866): "7.0 10.17 12.18 13.12 16.1 17.14 19.11 21.4 24.1 25.6",  # large v3
    (4, 20, 51_866): "2.4 2.11 3.3 3.6 3.11 3.14",  # large v3 turbo
}


def alignment_heads(directory: Path, dims: Dims) -> tuple[Head, ...]:
    """Those of a model in `directory`, by layer, then by head.

    As its files say: generation_config.json, config.json (CTranslate2's), or a weight of that name (MLX conversions).
    Else those of the published model of these sizes, which its fine-tuned ones keep; else all of the last half of the
    layers, as in openai/whisper.
    """
    told = (heads for value in _told(directory) if (heads := valid_heads(value, dims)))
    return next(told, None) or heads_by_sizes(dims)


def heads_by_sizes(dims: Dims) -> tuple[Head, ...]:
    """Those of the published model of these sizes, else all of the last half of the layers."""
    if published := _PUBLISHED.get((dims.n_text_layer, dims.n_text_head, dims.n_vocab)):
        return tuple((int(layer), int(head)) for layer, _, head in (pair.partition(".") for pair in published.split()))
    layers = range(dims.n_text_layer // 2, dims.n_text_layer)
    return tuple((layer, head) for layer in layers for head in range(dims.n_text_head))


def _told(directory: Path) -> Iterator[Any]:
    """What the files give for alignment heads, the likeliest first; whatever it may be."""
    for name in ("generation_config.json", "config.json"):
        try:
            config = json.loads((directory / name).read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(config, dict):
            yield config.get(_NAME)
    for path in weight_files(directory):
        yield _stored(path)


def _stored(path: Path) -> Any:
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            return archive[_NAME].tolist() if _NAME in archive else None
    with safe_open(path, framework="numpy") as file:
        return file.get_tensor(_NAME).tolist() if _NAME in file.keys() else None  # noqa: SIM118 (not a dict)


def valid_heads(value: Any, dims: Dims) -> tuple[Head, ...] | None:
    """Pairs of a layer and a head that the model has; None for anything else."""
    try:
        heads = sorted({(int(layer), int(head)) for layer, head in value})
    except (TypeError, ValueError):
        return None
    fit = all(0 <= layer < dims.n_text_layer and 0 <= head < dims.n_text_head for layer, head in heads)
    return tuple(heads) if heads and fit else None
