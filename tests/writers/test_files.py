"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from mlxbatch.errors import ItemError, SetupError
from mlxbatch.writers import files
from mlxbatch.writers.files import clear_scratch, output_path, write_outputs


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    return tmp_path / ".mlxbatch" / "tmp"


def fail_with(number: int) -> object:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_files_are_written_with_their_directories(tmp_path: Path, scratch: Path) -> None:
    write_outputs({tmp_path / "a/b/x.txt": "žluť\n", tmp_path / "x.bin": b"\0\1"}, scratch)
    assert (tmp_path / "a/b/x.txt").read_bytes() == "žluť\n".encode()
    assert (tmp_path / "x.bin").read_bytes() == b"\0\1"
    assert list(scratch.iterdir()) == []


def test_an_older_file_is_replaced(tmp_path: Path, scratch: Path) -> None:
    (tmp_path / "x.txt").write_text("a longer one from before")
    write_outputs({tmp_path / "x.txt": "new"}, scratch)
    assert (tmp_path / "x.txt").read_text() == "new"


def test_permissions_follow_the_umask(tmp_path: Path, scratch: Path) -> None:
    before = os.umask(0o027)
    try:
        write_outputs({tmp_path / "x.txt": ""}, scratch)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x.txt").stat().st_mode) == 0o640


def test_names_get_a_suffix_and_lose_nothing() -> None:
    assert output_path(Path("out"), Path("a/talk.v2"), "txt") == Path("out/a/talk.v2.txt")
    assert output_path(Path("out"), Path("a.wav"), "json") == Path("out/a.wav.json")


@pytest.mark.parametrize(
    ("number", "what", "remedy"),
    [
        (errno.ENOSPC, "the disk is full", "free some space"),
        (errno.EDQUOT, "the disk quota is used up", "free some space"),
        (errno.EROFS, "the file system is read-only", "choose another output directory"),
        (errno.EACCES, "permission denied", "make the directory writable"),
    ],
)
def test_an_output_that_cannot_be_written_stops_the_run(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, number: int, what: str, remedy: str
) -> None:
    (tmp_path / "x.txt").write_text("from before")
    monkeypatch.setattr(files.os, "fsync", fail_with(number))
    with pytest.raises(SetupError, match=rf"^cannot write .*/x\.txt: {what}; {remedy}") as caught:
        write_outputs({tmp_path / "x.txt": "new"}, scratch)
    assert caught.value.exit_code == 3
    assert (tmp_path / "x.txt").read_text() == "from before"
    assert list(scratch.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_really_full_disk(tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open
    monkeypatch.setattr(files.os, "open", lambda path, flags, mode=0o777: real("/dev/full", os.O_WRONLY))
    with pytest.raises(SetupError, match="the disk is full"):
        write_outputs({tmp_path / "x.txt": "new"}, scratch)
    assert not (tmp_path / "x.txt").exists()


def test_when_the_second_file_fails_the_first_is_not_there_either(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.fsync, []

    def second_fails(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(files.os, "fsync", second_fails)
    with pytest.raises(SetupError, match=r"/x\.srt: the disk is full"):
        write_outputs({tmp_path / "x.txt": "a", tmp_path / "x.srt": "b"}, scratch)
    assert [path.name for path in tmp_path.iterdir()] == [".mlxbatch"]
    assert list(scratch.iterdir()) == []


def test_an_interrupt_leaves_no_temporary_file(tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_outputs({tmp_path / "x.txt": "a"}, scratch)
    assert list(scratch.iterdir()) == []
    assert not (tmp_path / "x.txt").exists()


def test_a_directory_in_the_way_fails_that_item_alone(tmp_path: Path, scratch: Path) -> None:
    (tmp_path / "x.txt" / "deep").mkdir(parents=True)
    with pytest.raises(ItemError, match=r"x\.txt: write: a directory of that name is in the way$"):
        write_outputs({tmp_path / "x.txt": "a"}, scratch)
    assert list(scratch.iterdir()) == []


def test_a_file_in_the_way_of_a_directory_fails_that_item_alone(tmp_path: Path, scratch: Path) -> None:
    (tmp_path / "a").write_text("")
    for target in (tmp_path / "a/x.txt", tmp_path / "a/b/x.txt"):
        with pytest.raises(ItemError, match=r"x\.txt: write: a file is in the way where a directory is needed$"):
            write_outputs({target: "a"}, scratch)


def test_a_name_too_long_fails_that_item_alone(tmp_path: Path, scratch: Path) -> None:
    with pytest.raises(ItemError, match=r"write: the output's name is too long for this file system$"):
        write_outputs({tmp_path / ("x" * 300): "a"}, scratch)


def test_an_output_root_that_is_a_file_stops_the_run(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(SetupError, match=r"cannot write .*/out/\.mlxbatch/tmp: a file is in the way"):
        write_outputs({tmp_path / "out/x.txt": "a"}, tmp_path / "out/.mlxbatch/tmp")


def test_a_folder_on_another_disk_is_written_beside_its_target(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if self.parent != target.parent:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    write_outputs({tmp_path / "far/x.txt": "a"}, scratch)
    assert [path.name for path in (tmp_path / "far").iterdir()] == ["x.txt"]
    assert (tmp_path / "far/x.txt").read_text() == "a"
    assert list(scratch.iterdir()) == []


def test_the_scratch_directory_is_cleared(scratch: Path) -> None:
    clear_scratch(scratch)  # not there yet: nothing to do
    scratch.mkdir(parents=True)
    (scratch / "left.tmp").write_text("by a killed run")
    clear_scratch(scratch)
    assert list(scratch.iterdir()) == []


def test_a_scratch_directory_that_cannot_be_cleared(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch.mkdir(parents=True)
    (scratch / "left.tmp").write_text("")
    monkeypatch.setattr(Path, "unlink", fail_with(errno.EACCES))
    with pytest.raises(SetupError, match="permission denied"):
        clear_scratch(scratch)
