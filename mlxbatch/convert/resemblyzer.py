"""The GE2E speaker encoder from Resemblyzer's PyTorch checkpoint, under the names of mlx-audio's VoiceEncoder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mlxbatch.convert.checkpoint import Checkpoint, Origin
from mlxbatch.convert.fitting import Found, fitted
from mlxbatch.convert.ge2e_layout import LSTMS, expected_shapes
from mlxbatch.convert.readers.stored import Stored
from mlxbatch.convert.readers.torch_legacy import read_torch_legacy
from mlxbatch.convert.write import write_plain

MODEL = "pretrained.pt"
# mlx-audio's VoiceEncConfig, whose defaults are Resemblyzer's hparams.py: embeddings of 1.6 s at a time.
CONFIG: Mapping[str, Any] = {
    "model_type": "ge2e",
    "num_mels": 40,
    "sample_rate": 16_000,
    "speaker_embed_size": 256,
    "ve_hidden_size": 256,
    "n_fft": 400,
    "hop_size": 160,
    "win_size": 400,
    "fmax": 8000,
    "fmin": 0,
    "preemphasis": 0.0,
    "mel_power": 2.0,
    "mel_type": "amp",
    "normalized_mels": False,
    "ve_partial_frames": 160,
    "ve_final_relu": True,
    "stft_magnitude_min": 1e-4,
}


def convert_resemblyzer(source: Path, target: Path) -> None:
    """Write the model directory `target` from the package's file `source/pretrained.pt`.

    `target` is made, and must not exist. Raises ValueError that names the file at fault and what is wrong with it.
    """
    write_plain(read_resemblyzer(source, Origin(source.name)), target)


def read_resemblyzer(source: Path, origin: Origin) -> Checkpoint:
    """The checkpoint in a directory as of `convert_resemblyzer`. ValueError as there."""
    try:
        saved = read_torch_legacy(source / MODEL)
        state = saved.get("model_state") if isinstance(saved, dict) else None
        if not isinstance(state, dict):
            raise ValueError("no model_state in it")
        weights = fitted(dict(_renamed(state)), expected_shapes(CONFIG))
    except ValueError as error:
        raise ValueError(f"{MODEL}: {error}") from error
    notices = {path.name: path for path in sorted(source.glob("LICENSE*"))}
    return Checkpoint("ge2e", "speaker", CONFIG, weights, frozenset({"proj"}), notices, origin)


def _renamed(state: Mapping[str, Stored]) -> Iterator[tuple[str, Found]]:
    def get(name: str) -> Stored:
        if not isinstance(state.get(name), Stored):
            raise ValueError(f"the tensor {name} is missing")
        return state[name]

    for layer in range(LSTMS):
        path = f"lstm.layers.{layer}"
        for ours, theirs in (("Wx", "weight_ih"), ("Wh", "weight_hh")):
            yield f"{path}.{ours}", _as_is(get(f"lstm.{theirs}_l{layer}"))
        yield f"{path}.bias", _sum(get(f"lstm.bias_ih_l{layer}"), get(f"lstm.bias_hh_l{layer}"))
    for name in ("weight", "bias"):
        yield f"proj.{name}", _as_is(get(f"linear.{name}"))
        yield f"similarity_{name}", _as_is(get(f"similarity_{name}"))


def _as_is(tensor: Stored) -> Found:
    return tensor.shape, tensor.floats


def _sum(inputs: Stored, states: Stored) -> Found:
    """PyTorch keeps two biases that are only ever added; MLX has their sum."""
    if inputs.shape != states.shape:
        raise ValueError(f"biases of shapes {list(inputs.shape)} and {list(states.shape)}")
    return inputs.shape, lambda: inputs.floats() + states.floats()
