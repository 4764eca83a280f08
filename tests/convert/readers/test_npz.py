"""NumPy's archives: arrays and MLX's bfloat16 arrive, pickles and damage do not."""

from __future__ import annotations

import zipfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from mlxbatch.convert.readers.directory import read_file
from mlxbatch.convert.readers.stored import Stored
from mlxbatch.errors import SetupError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "weights.npz"


def arrays(path: Path) -> dict[str, tuple[str, Any]]:
    with ExitStack() as opened:
        return {name: (one.kind, one.read()) for name, one in read_file(path, opened).items()}


def refused(path: Path) -> str:
    with pytest.raises(SetupError) as caught:
        arrays(path)
    return str(caught.value)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_arrive_as_they_were(path: Path, save: Any) -> None:
    halves, turned = np.arange(6, dtype=np.float16).reshape(2, 3), np.arange(6, dtype=np.float32).reshape(3, 2).T
    save(path, **{"decoder.a": halves, "b": turned})
    found = arrays(path)
    assert {name: kind for name, (kind, _) in found.items()} == {"decoder.a": "F16", "b": "F32"}
    np.testing.assert_array_equal(found["decoder.a"][1], halves)
    np.testing.assert_array_equal(found["b"][1], turned)


def test_mlx_s_bfloat16_is_known(path: Path) -> None:
    mx.savez(str(path), a=mx.array([1.5, -3.0], mx.bfloat16))
    ((kind, values),) = arrays(path).values()
    assert (kind, values.tolist()) == ("BF16", [0x3FC0, 0xC040])


def test_objects_are_not_unpickled(path: Path) -> None:
    np.savez(path, a=np.array([{}], dtype=object))
    assert "a.npy holds Python objects, no weights" in refused(path)


def test_text_is_no_weight(path: Path) -> None:
    np.savez(path, a=np.array(["word"]))
    assert "a.npy holds numbers of type <U4, no weights" in refused(path)


def test_a_damaged_number_is_found_by_the_checksum(path: Path) -> None:
    np.savez(path, a=np.full(10_000, 7.0))
    path.write_bytes(path.read_bytes().replace(np.float64(7).tobytes(), np.float64(8).tobytes(), 1))
    assert "weights.npz: a.npy: Bad CRC-32" in refused(path)


def test_what_follows_an_array_is_refused(path: Path) -> None:
    np.savez(path, a=np.zeros(3))
    with zipfile.ZipFile(path) as archive:
        member = archive.read("a.npy")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", member + b"x")
    assert "a.npy: more follows the array" in refused(path)


@pytest.mark.parametrize("size", [0, 3, 200, 700])
def test_an_archive_cut_short(path: Path, size: int) -> None:
    np.savez(path, a=np.zeros(100))
    path.write_bytes(path.read_bytes()[:size])
    assert "weights.npz: no zip archive, or cut short" in refused(path)


def test_a_stored_weight_can_be_turned_and_divided() -> None:
    values = np.arange(24).reshape(2, 3, 4)
    stored = Stored((2, 3, 4), "I64", lambda: values)
    turned = stored.transposed(0, 2, 1)
    assert turned.shape == (2, 4, 3)
    np.testing.assert_array_equal(turned.read(), values.transpose(0, 2, 1))
    halves = [stored.part(number, 2) for number in (0, 1)]
    assert [half.shape for half in halves] == [(1, 3, 4)] * 2
    np.testing.assert_array_equal(np.concatenate([half.read() for half in halves]), values)
