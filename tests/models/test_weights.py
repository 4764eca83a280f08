from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from mlxbatch.errors import SetupError
from mlxbatch.models.weights import loaded_bytes, shapes, weight_files


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


def test_numpy_weights_come_last(tmp_path: Path) -> None:
    put(tmp_path, "weights.npz")
    assert weight_files(tmp_path) == (tmp_path / "weights.npz",)
    put(tmp_path, "other.safetensors")
    assert weight_files(tmp_path) == (tmp_path / "other.safetensors",)


def test_numpy_weights_of_another_name_are_to_be_renamed(tmp_path: Path) -> None:
    put(tmp_path, "whisper.npz")
    with pytest.raises(SetupError, match=r"whisper.npz: of weights in NumPy's format only those named weights.npz"):
        weight_files(tmp_path)


ARRAYS = {"a.weight": np.ones((2, 3), np.float16), "b": np.float32(1), "packed": np.zeros((4, 1), np.uint32)}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_shapes_of_numpy_weights(tmp_path: Path, save: Callable[..., None]) -> None:
    save(tmp_path / "weights.npz", **ARRAYS)
    assert dict(shapes(tmp_path / "weights.npz")) == {"a.weight": (2, 3), "b": (), "packed": (4, 1)}


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.99])
def test_numpy_weights_cut_short(tmp_path: Path, kept: float) -> None:
    path = tmp_path / "weights.npz"
    np.savez(path, **ARRAYS)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole)) if kept < 1 else int(kept)])
    with pytest.raises(SetupError, match=r"weights.npz: no readable npz file .*; the download was cut short or"):
        list(shapes(path))


def test_python_objects_are_no_weights(tmp_path: Path) -> None:
    np.savez(tmp_path / "weights.npz", a=np.array([{}], dtype=object))
    with pytest.raises(SetupError, match=r"a.npy holds Python objects"):
        list(shapes(tmp_path / "weights.npz"))


def test_an_archive_of_something_else(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "weights.npz", "w") as archive:
        archive.writestr("a.npy", b"no array")
    with pytest.raises(SetupError, match=r"weights.npz: no readable npz file"):
        list(shapes(tmp_path / "weights.npz"))


def test_the_size_of_numpy_weights(tmp_path: Path) -> None:
    np.savez(tmp_path / "weights.npz", **ARRAYS)
    assert loaded_bytes([tmp_path / "weights.npz"], "float32") == 4 * (6 + 1) + 4 * 4


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
    other = tmp_path / "other.safetensors"
    save_file({f"other {name}": array for name, array in stored.items()}, other)
    assert loaded_bytes([path, other], "float16") == 2 * loaded_bytes([path], "float16")
