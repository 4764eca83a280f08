"""Files put one behind the other."""

from __future__ import annotations

from pathlib import Path

import pytest
import soundfile

from mlxbatch import appended
from mlxbatch.appended import NOTE, goes_on
from mlxbatch.audio import decode
from mlxbatch.types import Item

from .sounds import tone

FORMATS = ["flac", "wav", "aiff", "caf"]


def recording(path: Path, kind: str) -> bytes:
    soundfile.write(path, tone(2.0), 16000, format=kind.upper(), subtype="PCM_16")
    return path.read_bytes()


@pytest.mark.parametrize("kind", FORMATS)
def test_the_second_is_said_not_to_be_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(recording(path, kind) * 2)
    found = decode(Item("id", path, Path("a")))
    # libFLAC fills its last block from the second one.
    assert found.seconds == pytest.approx(2.0, abs=0.1)
    assert (found.truncated, found.warnings) == (False, (NOTE,))


@pytest.mark.parametrize("kind", FORMATS)
def test_one_alone_is_not(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a"
    recording(path, kind)
    assert decode(Item("id", path, Path("a"))).warnings == ()


@pytest.mark.parametrize("block", [5, 12, 64])
@pytest.mark.parametrize("kind", FORMATS)
def test_wherever_blocks_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, block: int) -> None:
    monkeypatch.setattr(appended, "_BLOCK", block)
    path = tmp_path / "a"
    first = recording(path, kind)
    assert not goes_on(path)
    path.write_bytes(first + bytes(7) + first)
    assert goes_on(path)


def test_the_names_of_formats_are_no_beginnings(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(recording(path, "flac") + b"fLaC, said the flac")
    assert not goes_on(path)
