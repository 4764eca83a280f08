"""From inputs to items: output paths, order, what is refused and what is passed over."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from mlxbatch.discover import discover, item_id, read_list
from mlxbatch.errors import UsageError

OUT = Path("no-such-output")


def touch(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def places(*inputs: Path, **options: object) -> list[str]:
    options = {"output": OUT} | options
    return [str(item.relpath) for item in discover(inputs, **options).items]  # type: ignore[arg-type]


def test_one_directory_is_searched_to_the_bottom_and_keeps_its_tree(tmp_path: Path) -> None:
    touch(tmp_path, "b.wav", "a.mp3", "deep/er/c.FLAC")
    found = discover([tmp_path], output=OUT)
    assert [str(item.relpath) for item in found.items] == ["a", "b", "deep/er/c"]
    assert [item.source for item in found.items][2] == tmp_path / "deep/er/c.FLAC"
    assert found.problems == ()


def test_several_directories_lead_with_their_names(tmp_path: Path) -> None:
    touch(tmp_path, "one/a.wav", "two/a.wav", "lone.wav")
    assert places(tmp_path / "one", tmp_path / "two") == ["one/a", "two/a"]
    assert places(tmp_path / "one", tmp_path / "lone.wav") == ["lone", "one/a"]


def test_the_current_directory_leads_with_its_real_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "here/a.wav", "there/b.wav")
    monkeypatch.chdir(tmp_path / "here")
    assert places(Path(), Path("../there")) == ["here/a", "there/b"]


def test_a_lone_or_listed_file_keeps_its_own_name(tmp_path: Path) -> None:
    touch(tmp_path, "x/y/a.wav", "x/z/b.ogg", "d/c.wav")
    assert places(tmp_path / "x/y/a.wav") == ["a"]
    found = discover([], listed=[tmp_path / "x/y/a.wav", tmp_path / "x/z/b.ogg"], output=OUT)
    assert [str(item.relpath) for item in found.items] == ["a", "b"]
    # A list of files beside one directory does not move what stands in the directory.
    found = discover([tmp_path / "d"], listed=[tmp_path / "x/y/a.wav"], output=OUT)
    assert [str(item.relpath) for item in found.items] == ["a", "c"]


def test_root_keeps_paths_relative_to_it(tmp_path: Path) -> None:
    touch(tmp_path, "x/a.wav", "y/a.wav")
    assert places(tmp_path / "x", tmp_path / "y/a.wav", root=tmp_path) == ["x/a", "y/a"]
    assert places(tmp_path, root=tmp_path) == ["x/a", "y/a"]


def test_an_input_outside_the_root_is_refused_by_name(tmp_path: Path) -> None:
    touch(tmp_path, "x/a.wav", "y/a.wav")
    with pytest.raises(UsageError, match=r"y/a\.wav is not below --root .*/x$"):
        places(tmp_path / "y/a.wav", root=tmp_path / "x")


def test_root_sees_through_a_symlink(tmp_path: Path) -> None:
    touch(tmp_path, "real/x/a.wav")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert places(tmp_path / "real/x", root=tmp_path / "link") == ["x/a"]


def test_colliding_stems_keep_their_extensions(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", "a.mp3", "b.wav", "other/a.wav")
    assert places(tmp_path) == ["a.mp3", "a.wav", "b", "other/a"]


def test_a_kept_extension_may_meet_a_further_name(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", "a.mp3", "a.wav.flac")
    assert places(tmp_path) == ["a.mp3", "a.wav", "a.wav.flac"]


def test_only_media_suffixes_are_cut_off(tmp_path: Path) -> None:
    touch(tmp_path, "talk.2024", "noext", "v1.2.wav")
    assert places(*(tmp_path / name for name in ("talk.2024", "noext", "v1.2.wav"))) == ["noext", "talk.2024", "v1.2"]


def test_two_outputs_that_would_be_one_path_are_refused_with_both_names(tmp_path: Path) -> None:
    touch(tmp_path, "one/a.wav", "two/a.wav")
    with pytest.raises(UsageError, match=r"one/a\.wav and .*two/a\.wav would be written to the same output a\.wav"):
        places(tmp_path / "one/a.wav", tmp_path / "two/a.wav")


@pytest.mark.parametrize(("first", "second"), [("Call.wav", "call.wav"), ("caf\u00e9.wav", "cafe\u0301.wav")])
def test_names_that_are_one_on_other_file_systems_are_refused(tmp_path: Path, first: str, second: str) -> None:
    touch(tmp_path, first, second)
    if len(list(tmp_path.iterdir())) == 1:
        pytest.skip("this file system holds them as one name")
    with pytest.raises(UsageError, match="same output"):
        places(tmp_path)


def test_case_only_stems_keep_their_extensions(tmp_path: Path) -> None:
    touch(tmp_path, "Call.wav", "call.mp3")
    assert places(tmp_path) == ["Call.wav", "call.mp3"]


def test_a_file_given_twice_is_taken_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "d/a.wav")
    monkeypatch.chdir(tmp_path)
    assert places(Path("d/a.wav"), Path("./d/../d/a.wav"), tmp_path / "d/a.wav") == ["a"]
    assert places(Path("d"), Path("d/a.wav")) == ["a"]
    assert places(Path("d"), tmp_path / "d") == ["a"]


def test_a_path_that_does_not_exist_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no such file or directory: .*/missing\.wav"):
        places(tmp_path / "missing.wav")
    with pytest.raises(UsageError, match=r"no such file or directory: .*/missing\.wav"):
        discover([], listed=[tmp_path / "missing.wav"], output=OUT)


def test_a_path_with_a_nul_byte_is_refused() -> None:
    with pytest.raises(UsageError, match="null"):
        places(Path("a\0b.wav"))


def test_a_path_below_a_file_is_refused(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav")
    with pytest.raises(UsageError, match="Not a directory"):
        places(tmp_path / "a.wav/b.wav")


def test_hidden_files_and_folders_are_passed_over_and_others_counted(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", "._a.wav", ".trash/b.wav", "notes.txt", "deep/cover.jpg")
    found = discover([tmp_path], output=OUT)
    assert [str(item.relpath) for item in found.items] == ["a"]
    assert found.ignored == 2


def test_a_hidden_folder_or_odd_file_that_is_named_is_taken(tmp_path: Path) -> None:
    touch(tmp_path, ".rec/b.wav", "data.bin")
    assert places(tmp_path / ".rec") == ["b"]
    assert places(tmp_path / "data.bin") == ["data.bin"]


def test_the_output_root_below_an_input_is_skipped(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", "out/b.wav")
    assert places(tmp_path, output=tmp_path / "out") == ["a"]
    assert places(tmp_path, output=tmp_path) == ["a", "out/b"]
    assert places(tmp_path / "out", output=tmp_path / "out") == ["b"]


def test_a_linked_folder_is_followed_once_and_loops_end(tmp_path: Path) -> None:
    touch(tmp_path, "in/real/a.wav", "elsewhere/b.wav")
    (tmp_path / "in/loop").symlink_to(tmp_path / "in")
    (tmp_path / "in/also").symlink_to(tmp_path / "in/real")  # sorts before "real", yet the real name wins
    (tmp_path / "in/far1").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "in/far2").symlink_to(tmp_path / "elsewhere")
    assert places(tmp_path / "in") == ["far1/b", "real/a"]


def test_a_dangling_link_fails_later_instead_of_vanishing(tmp_path: Path) -> None:
    (tmp_path / "gone.wav").symlink_to(tmp_path / "nowhere.wav")
    assert places(tmp_path) == ["gone"]


def test_an_unreadable_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "a.wav", "locked/b.wav")
    real = os.scandir

    def scandir(path: str) -> object:
        if path.endswith("locked"):  # tests may run as root, to whom nothing is locked
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found = discover([tmp_path], output=OUT)
    assert [str(item.relpath) for item in found.items] == ["a"]
    (problem,) = found.problems
    assert (problem.path, problem.stage) == (tmp_path / "locked", "discover")
    assert problem.cause == "this folder could not be read: Permission denied"


@pytest.mark.skipif(sys.platform == "darwin", reason="this file system takes UTF-8 names only")
def test_names_that_are_no_utf8_work(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.wav")
    touch(tmp_path, name)
    (item,) = discover([tmp_path], output=OUT).items
    assert os.fsencode(item.relpath) == b"caf\xe9"
    assert item.source.read_bytes() == b"x"


def test_the_id_depends_on_task_and_absolute_path_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "d/a.wav")
    monkeypatch.chdir(tmp_path)
    (relative,) = discover([Path("d")], output=OUT).items
    (absolute,) = discover([tmp_path / "d/a.wav"], output=OUT).items
    assert relative.id == absolute.id == item_id(tmp_path / "d/a.wav", "transcribe")
    assert len(relative.id) == 32
    # Ledgers hold this: it must never change.
    assert item_id("/x/a.wav", "transcribe") == "bbfabebc2414c67bc83ec2617c421a99"
    assert item_id("/x/a.wav", "transcribe") != item_id("/x/a.wav", "separate")


def test_items_come_in_order_of_output_path(tmp_path: Path) -> None:
    touch(tmp_path, *(f"{name}.wav" for name in "zqbam"), "b/z.wav")
    assert places(tmp_path) == ["a", "b", "b/z", "m", "q", "z"]


def test_an_empty_directory_is_no_error(tmp_path: Path) -> None:
    assert places(tmp_path) == []


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
