from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlxbatch.convert.readers.stored import Stored
from mlxbatch.convert.readers.torch_legacy import read_torch_legacy
from tests.convert.torch_files import legacy_file

ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


def saved(path: Path) -> Path:
    return legacy_file({"step": 3, "state": {"rows": ROWS, "turned": ROWS.T}}, path / "model.pt")


def test_tensors_are_found_and_read_when_they_are_asked_for(tmp_path: Path) -> None:
    found = read_torch_legacy(saved(tmp_path))
    assert found["step"] == 3
    rows, turned = found["state"]["rows"], found["state"]["turned"]
    assert isinstance(rows, Stored)
    assert (rows.shape, rows.kind, turned.shape) == ((2, 3), "F32", (3, 2))
    np.testing.assert_array_equal(rows.read(), ROWS)
    np.testing.assert_array_equal(turned.read(), ROWS.T)


@pytest.mark.parametrize("kept", [0, 1, 12, 40, -1, -30])
def test_what_is_cut_short_is_refused(tmp_path: Path, kept: int) -> None:
    path = saved(tmp_path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"not a whole one|ends early|no PyTorch|damaged"):
        read_torch_legacy(path)


@pytest.mark.parametrize("data", [b"PK\3\4" * 40, b"\0" * 200, bytes(range(256)), pickle.dumps({}) * 5])
def test_other_files_are_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "model.pt").write_bytes(data)
    with pytest.raises(ValueError, match=r"pickle|PyTorch"):
        read_torch_legacy(tmp_path / "model.pt")


class Mischief:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_code_in_a_pickle_is_refused_and_not_run(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    path = legacy_file({"state": {"rows": ROWS}, "more": Mischief(trace)}, tmp_path / "model.pt")
    with pytest.raises(ValueError, match=r"mkdir.*refused"):
        read_torch_legacy(path)
    assert not trace.exists()


def test_a_storage_of_another_length_than_its_pickle_tells(tmp_path: Path) -> None:
    path = saved(tmp_path)
    data = path.read_bytes()
    count = len(data) - 2 * (8 + ROWS.nbytes)
    path.write_bytes(data[:count] + b"\7" + data[count + 1 :])
    with pytest.raises(ValueError, match="damaged: a storage of 7 numbers, its pickle tells of 6"):
        read_torch_legacy(path)
