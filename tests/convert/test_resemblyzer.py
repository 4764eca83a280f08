from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from mlxbatch.convert.resemblyzer import convert_resemblyzer
from mlxbatch.models.exact import check_ge2e
from tests.convert.torch_files import legacy_file


def state() -> dict[str, Any]:
    """As PyTorch's module has it, three LSTMs of 256 over 40 bands."""
    rng, gates = np.random.default_rng(0), 1024
    shapes: dict[str, tuple[int, ...]] = {"similarity_weight": (1,), "similarity_bias": (1,)}
    for layer in range(3):
        shapes |= {f"lstm.weight_ih_l{layer}": (gates, 256 if layer else 40), f"lstm.weight_hh_l{layer}": (gates, 256)}
        shapes |= {f"lstm.bias_ih_l{layer}": (gates,), f"lstm.bias_hh_l{layer}": (gates,)}
    shapes |= {"linear.weight": (256, 256), "linear.bias": (256,)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def source(directory: Path, saved: dict[str, Any]) -> Path:
    directory.mkdir(exist_ok=True)
    legacy_file(saved, directory / "pretrained.pt")
    (directory / "LICENSE").write_text("Apache")
    return directory


def test_it_becomes_a_whole_directory(tmp_path: Path) -> None:
    weights = state()
    made = tmp_path / "made"
    convert_resemblyzer(source(tmp_path / "source", {"step": 1, "model_state": weights}), made)
    check_ge2e(made)
    assert (made / "LICENSE").read_text() == "Apache"
    found = load_file(made / "model.safetensors")
    np.testing.assert_array_equal(found["lstm.layers.2.Wh"], weights["lstm.weight_hh_l2"])
    np.testing.assert_array_equal(found["lstm.layers.0.bias"], weights["lstm.bias_ih_l0"] + weights["lstm.bias_hh_l0"])
    np.testing.assert_array_equal(found["proj.weight"], weights["linear.weight"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"linear.bias": None}, "the tensor linear.bias is missing"),
        ({"linear.bias": np.zeros(3, np.float32)}, r"proj.bias has shape \[3\], \[256\] is needed"),
        ({"lstm.bias_hh_l1": np.zeros(4, np.float32)}, r"biases of shapes \[1024\] and \[4\]"),
    ],
)
def test_a_missing_tensor_and_a_wrong_shape_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^pretrained.pt: {message}"):
        convert_resemblyzer(source(tmp_path / "source", {"model_state": state() | change}), tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_a_checkpoint_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^pretrained.pt: no model_state in it"):
        convert_resemblyzer(source(tmp_path / "source", {"model": {}}), tmp_path / "made")
