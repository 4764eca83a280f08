"""safetensors by its header: every type arrives as it was written, and a header that is not right is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from safetensors.numpy import save_file

from mlxbatch.convert.readers.ranges import Ranges
from mlxbatch.convert.readers.safetensors import read_safetensors
from mlxbatch.convert.readers.stored import NUMPY
from mlxbatch.errors import SetupError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def write(path: Path, header: Any, data: bytes) -> None:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + data)


def entry(begin: int, end: int, *shape: Any, kind: str = "U8") -> dict[str, Any]:
    return {"dtype": kind, "shape": list(shape), "data_offsets": [begin, end]}


def refused(path: Path) -> str:
    with closing(Ranges(path)) as file, pytest.raises(ValueError, match=r".") as caught:
        read_safetensors(file)
    return str(caught.value)


@pytest.mark.parametrize("kind", sorted(set(NUMPY) - {"BF16"}))
def test_every_type_arrives_as_the_library_wrote_it(path: Path, kind: str) -> None:
    values = np.arange(6).astype(NUMPY[kind]).reshape(2, 3)
    save_file({"a": values, "empty": values[:0], "one": np.array(values[1, 2])}, path, metadata={"format": "mlx"})
    with closing(Ranges(path)) as file:
        read = read_safetensors(file)
        assert {name: (one.shape, one.kind) for name, one in read.items()} == {
            "a": ((2, 3), kind),
            "empty": ((0, 3), kind),
            "one": ((), kind),
        }
        np.testing.assert_array_equal(read["a"].read(), values)
        assert read["one"].read() == values[1, 2]


def test_bfloat16_comes_as_bits_and_as_floats(path: Path) -> None:
    mx.save_safetensors(str(path), {"a": mx.array([1.5, -3.0, 1e30], mx.bfloat16)})
    with closing(Ranges(path)) as file:
        (stored,) = read_safetensors(file).values()
        assert stored.read().tolist() == [0x3FC0, 0xC040, 0x714A]
        np.testing.assert_allclose(stored.floats(), [1.5, -3.0, 1e30], rtol=2**-8)


@pytest.fixture
def whole(path: Path) -> Iterator[bytes]:
    save_file({"a": np.arange(6, dtype=np.float32), "b": np.arange(4, dtype=np.int8)}, path)
    return path.read_bytes()


def test_a_file_cut_anywhere_is_refused(path: Path, whole: bytes) -> None:
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert "safetensors file" in refused(path) or "the file has" in refused(path)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"{" * 300_000, "its header is not JSON"),
        (b"\xff\xfe", "its header is not JSON"),
        (b"[1]", "its header is no JSON object"),
        (b'{"a": 1, "a": 2}', "names a weight twice"),
        ({"a": 7}, "no entry of a weight under 'a'"),
        ({"a": {"dtype": "U8", "shape": [8]}}, "no entry of a weight under 'a'"),
        ({"a": entry(0, 8, -8)}, r"'a' has shape \[-8\] and offsets 0 to 8"),
        ({"a": entry(0, 8, 8.0)}, r"'a' has shape \[8.0\]"),
        ({"a": entry(0, 8, 8, kind="F8_E4M3")}, "'a' is of type 'F8_E4M3', which is not converted"),
        ({"a": entry(0, 8, 9)}, r"'a' of shape \[9\] and type U8 cannot take 8 bytes"),
        ({"a": entry(8, 0, 8)}, r"'a' of shape \[8\] and type U8 cannot take -8 bytes"),
        ({"a": entry(0, 5, 5), "b": entry(4, 8, 4)}, "'b' begins at byte 4 of the weights, the one before ends at 5"),
        ({"a": entry(0, 4, 4), "b": entry(6, 8, 2)}, "'b' begins at byte 6 of the weights, the one before ends at 4"),
        ({"a": entry(0, 4, 4)}, "its header tells of [0-9]+ bytes, the file has [0-9]+"),
        ({"a": entry(0, 9, 9)}, "its header tells of [0-9]+ bytes, the file has [0-9]+"),
    ],
)
def test_a_header_that_is_not_right_is_refused(path: Path, header: Any, message: str) -> None:
    write(path, header, b"x" * 8)
    with closing(Ranges(path)) as file, pytest.raises(ValueError, match=message):
        read_safetensors(file)


@pytest.mark.parametrize("size", [2**40, 2**63])
def test_a_header_beyond_the_file_is_not_read(path: Path, size: int) -> None:
    path.write_bytes(size.to_bytes(8, "little") + b"{}")
    assert f"a header of {size} bytes in 10" in refused(path)


# ---- the file while it is read


@pytest.mark.parametrize("change", ["truncate", "append"])
def test_a_file_that_changes_is_found_out(path: Path, whole: bytes, change: str) -> None:
    with closing(Ranges(path)) as file:
        stored = read_safetensors(file)
        path.write_bytes(whole[:-9]) if change == "truncate" else path.write_bytes(whole + b"x")
        with pytest.raises(SetupError, match=r"model.safetensors: the file changed while it was read"):
            stored["a"].read()


def test_a_file_that_is_replaced_is_read_on(path: Path, whole: bytes) -> None:
    with closing(Ranges(path)) as file:
        stored = read_safetensors(file)
        other = path.with_name("other")
        other.write_bytes(b"else")
        other.replace(path)
        assert stored["a"].read().tolist() == [0, 1, 2, 3, 4, 5]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"nothing.safetensors: No such file"):
        Ranges(tmp_path / "nothing.safetensors")
