from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from mlxbatch.errors import SetupError
from mlxbatch.models.weights import loaded_bytes, weight_files


def put(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).touch()


@pytest.mark.parametrize(
    ("present", "chosen"),
    [
        (["model.safetensors"], ["model.safetensors"]),
        (["weights.safetensors"], ["weights.safetensors"]),
        (["model.safetensors", "weights.safetensors"], ["model.safetensors"]),
        (["b.safetensors", "a.safetensors"], ["a.safetensors", "b.safetensors"]),
        (["weights.npz", "weights.safetensors"], ["weights.safetensors"]),
    ],
)
def test_which_files_are_the_model(tmp_path: Path, present: list[str], chosen: list[str]) -> None:
    put(tmp_path, *present)
    assert [path.name for path in weight_files(tmp_path)] == chosen


def write_index(directory: Path, *shards: str) -> None:
    weight_map = {f"weight {number}": name for number, name in enumerate(shards)}
    (directory / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def test_shards_come_from_the_index(tmp_path: Path) -> None:
    write_index(tmp_path, "two.safetensors", "one.safetensors", "one.safetensors")
    put(tmp_path, "one.safetensors", "two.safetensors", "other.safetensors")
    assert [path.name for path in weight_files(tmp_path)] == ["one.safetensors", "two.safetensors"]


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    write_index(tmp_path, "one.safetensors", "two.safetensors")
    put(tmp_path, "one.safetensors")
    with pytest.raises(SetupError, match=r"two.safetensors: the shard is missing \(1 of 2 are\)"):
        weight_files(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": 1}}'])
def test_a_broken_index_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(content)
    with pytest.raises(SetupError, match=r"index.json: no index of safetensors shards"):
        weight_files(tmp_path)


def test_none(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"no \*.safetensors in it"):
        weight_files(tmp_path)


def test_numpy_weights_are_to_be_converted(tmp_path: Path) -> None:
    put(tmp_path, "weights.npz")
    with pytest.raises(SetupError, match=r"weights.npz: weights in NumPy's format are not read; convert it"):
        weight_files(tmp_path)


def test_the_size_is_known_before_loading(tmp_path: Path) -> None:
    stored = {
        "half": np.zeros((3, 5), np.float16),
        "single": np.zeros(7, np.float32),
        "packed": np.zeros((2, 2), np.uint32),
        "flags": np.zeros(3, np.uint8),
    }
    path = tmp_path / "model.safetensors"
    save_file(stored, path)
    assert loaded_bytes([path], "float32") == 4 * (15 + 7) + 4 * 4 + 3
    assert loaded_bytes([path], "bfloat16") == 2 * (15 + 7) + 4 * 4 + 3
    assert loaded_bytes([path, path], "float16") == 2 * loaded_bytes([path], "float16")
