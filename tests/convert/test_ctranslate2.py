from __future__ import annotations

import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mlxbatch.convert.ctranslate2 import read_ctranslate2
from mlxbatch.convert.readers.ranges import Ranges
from tests.convert.ct2 import ct2_bytes

VARIABLES = {
    "a/weight": np.arange(6, dtype=np.float16).reshape(2, 3),
    "b": np.array([1.5, -2.5], np.float32),
    "c": np.array([[[-7]]], np.int8),
    "heads": np.array(8, np.int16),
    "ids": np.array([1, 2, 70_000], np.int32),
}
WHOLE = ct2_bytes(VARIABLES, {"tied": "a/weight"})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.bin"


def refused(path: Path) -> str:
    with closing(Ranges(path)) as file, pytest.raises(ValueError, match=r".") as caught:
        read_ctranslate2(file)
    return str(caught.value)


def test_reads_what_was_written(path: Path) -> None:
    path.write_bytes(WHOLE)
    with closing(Ranges(path)) as file:
        found = read_ctranslate2(file)
        assert (found.spec, found.revision, found.aliases) == ("WhisperSpec", 3, {"tied": "a/weight"})
        assert list(found.stored) == list(VARIABLES)
        for name, value in VARIABLES.items():
            read = found.stored[name].read()
            assert (read.dtype, read.shape) == (value.dtype, value.shape)
            np.testing.assert_array_equal(read, value)
        assert found.weight("tied") is found.stored["a/weight"]


def quantized(integers: NDArray[Any], scale: NDArray[Any], path: Path, **more: NDArray[Any]) -> NDArray[Any]:
    path.write_bytes(ct2_bytes({"a/weight": integers, "a/weight_scale": scale, **more}))
    with closing(Ranges(path)) as file:
        stored = read_ctranslate2(file).weight("a/weight")
        values = stored.read()
    assert (stored.kind, stored.shape, values.dtype, values.shape) == (
        "F16",
        integers.shape,
        np.float16,
        integers.shape,
    )
    return values


def test_int8_is_divided_by_the_scales_of_its_rows(path: Path) -> None:
    """As CTranslate2 quantizes: each row times 127 / its largest number, rounded."""
    weight = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
    scale = 127 / np.abs(weight).max(axis=1)
    integers = np.rint(weight * scale[:, None]).astype(np.int8)
    values = quantized(integers, scale.astype(np.float32), path)
    np.testing.assert_allclose(values, weight, atol=0.5 / scale.min() + 1e-3)
    np.testing.assert_allclose(values, integers / scale[:, None], rtol=2**-11)


def test_a_convolution_of_int8_has_a_scale_for_each_output(path: Path) -> None:
    integers, scale = np.arange(24, dtype=np.int8).reshape(2, 3, 4), np.array([1, 4], np.float32)
    np.testing.assert_array_equal(quantized(integers, scale, path), integers / scale[:, None, None])


def test_int16_is_divided_by_one_scale(path: Path) -> None:
    integers = np.array([[1024, -3], [7, 0]], np.int16)
    np.testing.assert_array_equal(quantized(integers, np.array(512, np.float32), path), integers / 512)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"a": np.zeros((2, 3), np.int8)}, r"'a' is quantized \(I8\) in a way that is not read"),
        ({"a": np.zeros((2, 3), np.int32), "a_scale": np.ones(2, np.float32)}, r"'a' is quantized \(I32\)"),
        (
            {"a": np.zeros((2, 3), np.int8), "a_scale": np.ones(2, np.float32), "a_zero": np.ones(2, np.float32)},
            r"'a' is quantized \(I8\) in a way",
        ),
        ({"a": np.zeros((2, 3), np.int8), "a_scale": np.ones(3, np.float32)}, "'a' has 2 rows and 3 scales"),
        ({"b": np.zeros(3, np.float32)}, "variable 'a' is missing"),
    ],
)
def test_other_quantizations_are_refused(path: Path, variables: dict[str, NDArray[Any]], message: str) -> None:
    path.write_bytes(ct2_bytes(variables))
    with closing(Ranges(path)) as file, pytest.raises(ValueError, match=message):
        read_ctranslate2(file).weight("a")


@pytest.mark.parametrize("size", range(1, len(WHOLE)))
def test_a_file_cut_anywhere_is_refused(path: Path, size: int) -> None:
    path.write_bytes(WHOLE[:size])
    assert f"the file ends early: {size} bytes, at least " in refused(path)


def unknown_type() -> bytes:
    at = WHOLE.index(b"b\0") + 2 + 1 + 4
    return WHOLE[:at] + b"\x63" + WHOLE[at + 1 :]


def wrong_size() -> bytes:
    at = WHOLE.index(b"b\0") + 2 + 1 + 4 + 1
    return WHOLE[:at] + struct.pack("<I", 12) + WHOLE[at + 4 :]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"PK\3\4 and so on", "no CTranslate2 model of version 6"),
        (ct2_bytes(VARIABLES, version=5), "no CTranslate2 model of version 6 .its first word is 5."),
        (struct.pack("<IH", 6, 3) + b"abc", "corrupt: no string at byte 6"),
        (struct.pack("<IH", 6, 3) + b"\xff\xfe\0", "corrupt: no string at byte 6"),
        (unknown_type(), "'b' has the unknown data type 99"),
        (wrong_size(), r"'b' of shape \[2\] and type F32 cannot take 12 bytes"),
        (WHOLE + b"xy", "corrupt: 2 bytes follow the model"),
    ],
)
def test_what_is_wrong_is_said(path: Path, content: bytes, message: str) -> None:
    path.write_bytes(content)
    with closing(Ranges(path)) as file, pytest.raises(ValueError, match=message):
        read_ctranslate2(file)
