from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from mlxbatch.convert.ctranslate2 import read_ctranslate2
from tests.convert.ct2 import ct2_bytes

VARIABLES = {
    "a/weight": np.arange(6, dtype=np.float16).reshape(2, 3),
    "b": np.array([1.5, -2.5], np.float32),
    "c": np.array([[[-7]]], np.int8),
    "heads": np.array(8, np.int16),
    "ids": np.array([1, 2, 70_000], np.int32),
}
WHOLE = ct2_bytes(VARIABLES, {"tied": "a/weight"})


def test_reads_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(WHOLE)
    checkpoint = read_ctranslate2(path)
    assert (checkpoint.spec, checkpoint.revision, checkpoint.aliases) == ("WhisperSpec", 3, {"tied": "a/weight"})
    assert list(checkpoint.variables) == list(VARIABLES)
    for name, value in VARIABLES.items():
        read = checkpoint.variables[name]
        assert (read.dtype, read.shape) == (value.dtype, value.shape)
        np.testing.assert_array_equal(read, value)


@pytest.mark.parametrize("size", range(1, len(WHOLE)))
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, size: int) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(WHOLE[:size])
    with pytest.raises(ValueError, match=f"the file ends early: {size} bytes, at least [0-9]+ are needed"):
        read_ctranslate2(path)


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
        (wrong_size(), r"'b' of shape \[2\] and type float32 cannot take 12 bytes"),
        (WHOLE + b"xy", "corrupt: 2 bytes follow the model"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_ctranslate2(path)


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_ctranslate2(tmp_path / "model.bin")
