"""Lists of inputs: names as bytes, one a line or separated by NUL."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from mlxbatch.errors import UsageError
from mlxbatch.file_list import read_list


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a.wav\nb c.wav\n", ["a.wav", "b c.wav"]),
        (b"a.wav\r\n\r\n  \nb.wav", ["a.wav", "b.wav"]),
        (b"a.wav\0with\nnewline.wav\0", ["a.wav", "with\nnewline.wav"]),
        (b"\xef\xbb\xbfa.wav\n", ["a.wav"]),
        (b"", []),
    ],
)
def test_a_list_has_one_path_a_line(content: bytes, expected: list[str]) -> None:
    assert read_list(io.BytesIO(content)) == [Path(name) for name in expected]


def test_with_nul_nothing_else_is_an_end() -> None:
    read = lambda content: read_list(io.BytesIO(content), nul=True)  # noqa: E731
    assert read(b"one\nname.wav") == [Path("one\nname.wav")]
    assert read(b"a.wav\r\0 \0\0b\n.wav\0") == [Path("a.wav\r"), Path(" "), Path("b\n.wav")]
    assert read(b"") == []


def test_a_list_is_safe_for_bytes_that_are_no_utf8(tmp_path: Path) -> None:
    (tmp_path / "list").write_bytes(b"/x/caf\xe9.wav\n")
    (path,) = read_list(tmp_path / "list")
    assert os.fsencode(path) == b"/x/caf\xe9.wav"


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a.wav\n")))
    assert read_list(Path("-")) == [Path("a.wav")]


def test_a_list_that_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the list .*/missing cannot be read: No such file or directory"):
        read_list(tmp_path / "missing")
    with pytest.raises(UsageError, match="Is a directory"):
        read_list(tmp_path)
