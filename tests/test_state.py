"""The state folder and the kind of disk."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path

import psutil
import pytest

from mlxbatch import state
from mlxbatch.errors import SetupError
from mlxbatch.state import file_system, on_network, state_folder

Part = namedtuple("Part", "mountpoint fstype")


def test_the_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    assert state_folder(tmp_path / "a" / "b") == tmp_path / "a" / "b" / ".mlxbatch"
    assert state_folder(tmp_path / "a" / "b").is_dir()


def test_a_root_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match=r"cannot write to .*/file/out: Not a directory"):
        state_folder(tmp_path / "file" / "out")


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The superuser may write anywhere, so the answer of the system is staged.
    monkeypatch.setattr(state.os, "access", lambda path, mode: False)
    with pytest.raises(SetupError, match=r"cannot write to .*\.mlxbatch: not writable"):
        state_folder(tmp_path)


@pytest.mark.parametrize(
    ("kind", "network"),
    [("ext4", False), ("apfs", False), ("fuseblk", False), ("", False)]
    + [(kind, True) for kind in ("nfs", "nfs4", "cifs", "smbfs", "fuse.sshfs", "9p", "afpfs", "webdav", "FUSE.rclone")],
)
def test_network_mounts_are_told_by_their_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, network: bool
) -> None:
    real = str(tmp_path.resolve())
    parts = [Part("/", "ext4"), Part(real, "tmpfs"), Part(real, kind), Part(real + "x", "nfs")]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: parts)  # noqa: A006 - psutil's own name
    assert file_system(tmp_path) == kind
    assert on_network(tmp_path) is network


def test_this_disk_has_a_type() -> None:
    assert file_system(Path("/")) != ""
