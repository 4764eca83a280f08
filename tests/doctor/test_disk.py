"""Room and permissions: files in the way, modes as another user meets them, macOS's privacy as it is documented."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from mlxbatch.doctor import disk
from mlxbatch.doctor.disk import check_permissions, check_space, readable, writable
from mlxbatch.doctor.finding import Case, nearest_there

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MLXBATCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_directory_that_can_be_written_stays_as_it_was(tmp_path: Path) -> None:
    assert writable("output", tmp_path, "x").level == "ok"
    made = writable("output", tmp_path / "new" / "out", "x")
    assert (made.level, made.what.endswith("which would be made")) == ("ok", True)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    for place in (tmp_path / "out", tmp_path / "out" / "below"):
        found = writable("output", place, "name another")
        assert (found.level, found.remedy) == ("problem", "name another")
        assert f"cannot write to {place}: Not a directory" in found.what


UNPRIVILEGED = """
import json, os, sys
from dataclasses import asdict
from pathlib import Path
import psutil  # while everything may be read
from mlxbatch.doctor.disk import check_permissions
from mlxbatch.doctor.finding import Case
os.setgroups([]); os.setgid(65534); os.setuid(65534)
out = Path(sys.argv[1])
print(json.dumps([asdict(one) for one in check_permissions(Case(output=out, inputs=(out,)))]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user: root only")
@pytest.mark.parametrize("below", ["", "locked/new"], ids=["itself", "below one that may not be searched"])
def test_modes_as_another_user_meets_them(tmp_path: Path, below: str) -> None:
    out = tmp_path / "out"
    (out / "locked").mkdir(parents=True)
    (out / "locked").chmod(0o700)
    out.chmod(0o700)
    # pytest's own folders keep others out, too; the working directory is one that all may list.
    command = [sys.executable, "-c", UNPRIVILEGED, str(out / below)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert {one["level"] for one in found} == {"problem", "warning"}  # the cache's is a warning
    assert all("Permission denied" in one["what"] and one["remedy"] for one in found)


def test_a_cache_that_cannot_be_written_is_a_warning(cache: Path) -> None:
    cache.write_text("")
    (found,) = (one for one in check_permissions(Case()) if one.level != "ok")
    assert found.level == "warning"
    assert "MLXBATCH_CACHE" in found.remedy


def test_inputs_are_read(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.wav").write_bytes(b"RIFF")
    assert readable(tmp_path / "in").level == "ok"
    assert readable(tmp_path / "in" / "a.wav").level == "ok"
    missing = readable(tmp_path / "none")
    assert (missing.level, "No such file" in missing.what) == ("problem", True)
    assert missing.remedy == "name a directory that is there"
    below_a_file = readable(tmp_path / "in" / "a.wav" / "b")
    assert (below_a_file.level, below_a_file.remedy) == ("problem", missing.remedy)


@pytest.fixture
def privacy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Mac that keeps directories from this program: EPERM where they are listed, as Apple documents it."""

    def denied(path: Any) -> NoReturn:
        raise PermissionError(errno.EPERM, "Operation not permitted", str(path))

    monkeypatch.setattr(disk.sys, "platform", "darwin")
    monkeypatch.setattr(disk.os, "scandir", denied)


@pytest.mark.usefixtures("privacy")
def test_macos_privacy_has_a_remedy_of_its_own(tmp_path: Path) -> None:
    found = [one for one in check_permissions(Case(inputs=(tmp_path,))) if one.level == "problem"]
    assert any(str(tmp_path) in one.what and "Operation not permitted" in one.what for one in found)
    assert all("Full Disk Access" in one.remedy and "/usr/sbin/cron" in one.remedy for one in found)


def test_a_denial_by_mode_is_not_called_privacy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Any) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(disk.sys, "platform", "darwin")
    monkeypatch.setattr(disk.os, "scandir", denied)
    assert "Full Disk Access" not in readable(tmp_path).remedy


def test_room_is_told_of_each_place(tmp_path: Path) -> None:
    found = list(check_space(Case(output=tmp_path / "out")))
    assert [one.what.split(":")[0] for one in found if one.level == "ok"] == [
        "output",
        "model cache",
        "temporary files",
    ]
    assert all(" free of " in one.what for one in found if one.level == "ok")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 1 MB."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=8", "tmpfs", str(place)]
    if sys.platform != "linux" or os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounts a file system: root on Linux")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_disk_without_room_for_a_run(small: Path) -> None:
    (found,) = (one for one in check_space(Case(output=small / "out")) if one.level != "ok")
    assert found.level == "problem"
    assert "less than min_free = 100 MB" in found.what
    assert str(small) in found.remedy


def test_a_disk_without_inodes(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_least", lambda case: 0)
    for number in range(7):
        (small / str(number)).touch()
    (found,) = (one for one in check_space(Case(output=small)) if one.level != "ok")
    assert (found.level, "out of inodes" in found.what) == ("problem", True)


def test_a_network_mount_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.setattr(disk, "on_network", lambda place: place == out)
    (found,) = (one for one in check_space(Case(output=out)) if one.level == "note")
    assert f"{out} is on a network mount" in found.what


def test_nearest(tmp_path: Path) -> None:
    assert nearest_there(tmp_path / "a" / "b") == tmp_path
    assert nearest_there(tmp_path) == tmp_path
    shutil.rmtree(tmp_path)
    assert nearest_there(tmp_path) != tmp_path
