from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mlxbatch.convert.ge2e_layout import expected_shapes
from mlxbatch.convert.resemblyzer import CONFIG
from mlxbatch.errors import SetupError
from mlxbatch.models.exact import check_deepfilter, check_ge2e, check_kokoro


@pytest.fixture
def model(tmp_path: Path) -> Path:
    config = {**CONFIG, "ve_hidden_size": 4, "speaker_embed_size": 8}
    (tmp_path / "config.json").write_text(json.dumps(config))
    weights = {name: np.zeros(shape, np.float32) for name, shape in expected_shapes(config).items()}
    save_file(weights, tmp_path / "model.safetensors")
    return tmp_path


def changed(model: Path, change: dict[str, Any]) -> Path:
    weights = load_file(model / "model.safetensors") | change
    kept = {name: values for name, values in weights.items() if values is not None}
    save_file(kept, model / "model.safetensors")
    return model


def test_a_whole_one(model: Path) -> None:
    check_ge2e(model)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"proj.bias": None}, "model.safetensors: lacks the weight proj.bias; "),
        ({"proj.bias": np.zeros(3)}, r"model.safetensors: proj.bias has shape \[3\], \[8\] is needed; "),
        ({"other": np.zeros(3)}, "model.safetensors: other is no weight of a 'ge2e'; "),
    ],
)
def test_weights_that_are_not_its_own(model: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(SetupError, match=message):
        check_ge2e(changed(model, change))


def test_another_model_and_one_without_sizes(model: Path) -> None:
    with pytest.raises(SetupError, match=r"config.json: a 'ge2e' model, no 'kokoro'"):
        check_kokoro(model)
    with pytest.raises(SetupError, match=r"config.json: a 'ge2e' model, no 'deepfilternet'"):
        check_deepfilter(model)
    (model / "config.json").write_text('{"model_type": "ge2e", "ve_hidden_size": 4}')
    with pytest.raises(SetupError, match=r"config.json: not the sizes of a 'ge2e' \('speaker_embed_size'\)"):
        check_ge2e(model)
    with pytest.raises(SetupError, match="no such model directory"):
        check_ge2e(model / "nothing")
