"""By what a file's content is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlxbatch import content
from mlxbatch.content import content_hash, fingerprint


def test_the_content_hash_is_blake2b_256_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # By coreutils: printf audio | b2sum -l 256
    expected = "f9d17167a9820afef6df879235187cc1487e665ba211441ce04200d96c5a33ff"
    (tmp_path / "a").write_bytes(b"audio")
    assert content_hash(tmp_path / "a") == expected
    monkeypatch.setattr(content, "_BLOCK", 2)
    assert content_hash(tmp_path / "a") == expected


def test_the_fingerprint_is_what_stat_says(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"audio")
    found = (tmp_path / "a").stat()
    assert fingerprint(tmp_path / "a") == content.Fingerprint(5, found.st_mtime_ns, found.st_ino)
    with pytest.raises(FileNotFoundError):
        fingerprint(tmp_path / "b")
