"""Room on the disk: what is needed, what is there, and a run's refusal to begin or to go on without."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mlxbatch.disk import EVERY, Room, Space, cause, forecast, free_room
from mlxbatch.errors import SetupError

MB = 10**6


class Disk:
    """A disk with so much room, on a clock that stands still; it counts how often it is asked."""

    def __init__(self, size: int, files: int | None = 1000) -> None:
        self.room, self.now, self.asked = Room(size, files), 50.0, 0

    def space(self, min_free: int = 0) -> Space:
        return Space(Path("out"), min_free, clock=lambda: self.now, free=self._free)

    def _free(self, path: Path) -> Room:
        assert path == Path("out")
        self.asked += 1
        return self.room


# ---- before


def test_what_fits_is_let_through() -> None:
    Disk(300 * MB, files=20).space(100 * MB).require(Room(200 * MB, 20))
    Disk(100 * MB).space(100 * MB).require()


def test_what_does_not_fit_is_refused_with_path_and_figures() -> None:
    with pytest.raises(SetupError) as caught:
        Disk(300 * MB).space(100 * MB).require(Room(2_400 * MB, 20))
    assert str(caught.value) == (
        "not enough room on the disk of out: 300 MB free, 2.5 GB needed "
        "(2.4 GB for results, 100 MB to stay free by state.min_free); free some space and run again"
    )


def test_a_disk_that_takes_no_more_files() -> None:
    with pytest.raises(SetupError, match=r"disk of out: it takes 7 more files \(inodes\), 8 needed; remove some files"):
        Disk(10_000 * MB, files=7).space().require(Room(1, 8))
    with pytest.raises(SetupError, match="it takes 0 more files"):
        Disk(10_000 * MB, files=0).space().require()


def test_a_file_system_that_does_not_count_files() -> None:
    Disk(MB, files=None).space().require(Room(1, 10**9))


def test_a_disk_that_does_not_tell_is_tried() -> None:
    def fail(path: Path) -> Room:
        raise OSError(errno.ENOSYS, "Function not implemented")

    Space(Path("out"), 10**15, free=fail).require(Room(10**15, 10**15))


# ---- while it runs


def test_the_disk_is_watched_once_a_second() -> None:
    disk = Disk(200 * MB)
    space = disk.space(100 * MB)
    for _ in range(21):
        space.watch()
        disk.now += EVERY / 10
    assert disk.asked == 3


def test_a_run_ends_when_the_room_that_is_to_stay_is_used() -> None:
    disk = Disk(200 * MB)
    space = disk.space(100 * MB)
    space.watch()
    disk.room = Room(99 * MB, 1000)
    space.watch()
    disk.now += EVERY
    with pytest.raises(SetupError, match=r"99 MB free, 100 MB needed"):
        space.watch()


# ---- figures


def test_each_format_file_and_second_adds_to_the_forecast() -> None:
    nothing = forecast([], ["txt"])
    hour = forecast([3600.0], ["txt"])
    both = forecast([3600.0], ["txt", "json"])
    ten = forecast([360.0] * 10, ["txt"])
    assert nothing.bytes < hour.bytes < ten.bytes
    assert both.bytes - hour.bytes > 3600 * 300
    assert (hour.files, both.files, ten.files) == (17, 18, 26)


def test_a_format_without_a_measurement_counts_as_the_largest() -> None:
    assert forecast([60.0], ["new"]) == forecast([60.0], ["json"])


def test_free_room_is_the_system_s(tmp_path: Path) -> None:
    found, free = os.statvfs(tmp_path), free_room(tmp_path)
    assert free.bytes == pytest.approx(found.f_bavail * found.f_frsize, rel=0.05)
    assert free.files is None or free.files > 0


@pytest.mark.parametrize(("files", "available", "expected"), [(0, 0, None), (100, 0, 0), (100, 40, 40)])
def test_no_bound_on_files_is_none(
    monkeypatch: pytest.MonkeyPatch, files: int, available: int, expected: int | None
) -> None:
    # f_bsize f_frsize f_blocks f_bfree f_bavail f_files f_ffree f_favail f_flag f_namemax
    found = os.statvfs_result((4096, 512, 1000, 900, 800, files, available, available, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: found)
    monkeypatch.setattr("sys.platform", "linux")
    assert free_room(Path("out")) == Room(800 * 512, expected)
    monkeypatch.setattr("sys.platform", "darwin")
    assert free_room(Path("out")) == Room(800 * 512, None)


@pytest.mark.parametrize(
    ("number", "what"), [(errno.ENOSPC, "the disk is full"), (errno.EDQUOT, "the disk quota is used up")]
)
def test_a_full_disk_is_told_with_what_to_do(number: int, what: str) -> None:
    assert cause(OSError(number, os.strerror(number))) == f"{what}; free some space and run again"


def test_other_causes_are_the_system_s_words() -> None:
    assert cause(OSError(errno.EROFS, "Read-only file system")) == "Read-only file system"
    assert cause(OSError("odd")) == "odd"
