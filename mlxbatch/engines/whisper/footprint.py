"""How much memory a Whisper takes, from the sizes in its config. Pure but for reading that file: no MLX."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mlxbatch.engines.base import EngineSpec, Footprint
from mlxbatch.engines.whisper.heads import alignment_heads
from mlxbatch.engines.whisper.layout import Dims, canonical_name, expected_shapes
from mlxbatch.engines.whisper.windows import SAMPLE_RATE
from mlxbatch.models.architecture import quantization
from mlxbatch.models.weights import DTYPE_BYTES, headers, loaded_bytes, resident_bytes, weight_files
from mlxbatch.vad.layout import ROW_BYTES

# Attention scores that are worked on at once on the CPU (mlxbatch.kernels); a GPU's kernel keeps none.
TILE = 375_000
# The tokens whose attention is looked into are rounded up to this: MLX keeps a buffer for each shape.
ROUND = 64


def footprint(spec: EngineSpec) -> Footprint:
    """What WhisperEngine says of itself once it is loaded, of a directory that is whole; SetupError where it is not."""
    assert spec.model is not None
    config = json.loads((spec.model / "config.json").read_bytes())
    dims, size = Dims.from_config(config), DTYPE_BYTES[spec.dtype]
    on_cpu = spec.device.get("kind", "cpu") == "cpu"
    weights = weight_bytes(config, weight_files(spec.model), spec.dtype, spec.bits, plain=on_cpu)
    weights += loaded_bytes(weight_files(spec.vad), "float32") if spec.vad else 0
    heads = len(alignment_heads(spec.model, dims)) if spec.words else 0
    return Footprint(weights, partial(need, dims, size=size, tiled=on_cpu, listens=spec.vad is not None, heads=heads))


def weight_bytes(config: Mapping[str, Any], files: Sequence[Path], dtype: str, bits: int | None, *, plain: bool) -> int:
    """Bytes of the network's weights, whatever else the files hold; `plain`: none of its layers stays quantized."""
    stored = {canonical_name(name) or "": header for name, header in headers(files).items()}
    wanted = expected_shapes(Dims.from_config(config))
    layers = {name.rpartition(".")[0] for name in wanted if f"{name.rpartition('.')[0]}.scales" in stored}
    ours = {name: header for name, header in stored.items() if name in wanted or name.rpartition(".")[0] in layers}
    return resident_bytes(ours, dtype, bits, quantization(config), plain=plain)


def need(dims: Dims, seconds: float, size: int, *, tiled: bool, listens: bool, heads: int = 0) -> int:
    """Bytes that one recording adds: its samples, one window's features, its share of an encoder call, and its slot in
    the decoder. `size` is the bytes of a number, `tiled` whether attention works through its scores in tiles,
    `listens` whether its speech is looked for first, `heads` those whose queries are kept to time words.
    """
    samples = math.ceil(seconds * SAMPLE_RATE) * 4
    mel = 2 * dims.n_audio_ctx * dims.n_mels * 4
    scores = 3 * TILE * size if tiled else 0
    hidden = 12 * dims.n_audio_ctx * dims.n_audio_state * size
    cross = 2 * 2 * dims.n_text_layer * dims.n_audio_ctx * dims.n_text_state * size
    cache = 2 * dims.n_text_layer * dims.n_text_ctx * dims.n_text_state * size
    samples += ROW_BYTES if listens else 0
    queries = heads * dims.n_text_ctx * (dims.n_text_state // dims.n_text_head) * size
    # What a text looked at in its audio is computed where no encoder call is: the larger of the two counts.
    looked = heads * (dims.n_text_ctx // 2 + ROUND) * dims.n_audio_ctx * 4
    return samples + mel + max(scores + hidden, looked) + cross + cache + queries + 8 * dims.n_vocab * 4
