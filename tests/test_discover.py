"""From inputs to items: output paths, order, what is refused and what is passed over."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mlxbatch.discover import Found, discover, item_id
from mlxbatch.errors import UsageError
from mlxbatch.filters import Filters
from mlxbatch.manifest import Row
from mlxbatch.patterns import pattern
from mlxbatch.types import Wishes

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
    assert found.not_taken == {"ignored": 2}


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


def test_a_link_that_goes_round_in_a_circle_is_reported(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav")
    (tmp_path / "b.wav").symlink_to(tmp_path / "c.wav")
    (tmp_path / "c.wav").symlink_to(tmp_path / "b.wav")
    found = discover([tmp_path], output=OUT)
    assert [str(item.relpath) for item in found.items] == ["a"]
    assert [problem.path.name for problem in found.problems] == ["b.wav", "c.wav"]
    assert found.problems[0].cause.startswith("this link could not be followed: ")


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


# --- patterns --------------------------------------------------------------------------------------------------------


def test_a_pattern_keeps_the_tree_below_its_first_wildcard(tmp_path: Path) -> None:
    touch(tmp_path, "calls/a.wav", "calls/x/b.wav", "calls/x/y/c.wav", "calls/x/d.mp3", "else/e.wav")
    assert places(tmp_path / "calls/**/*.wav") == ["a", "x/b", "x/y/c"]
    assert places(tmp_path / "calls/*.wav") == ["a"]
    assert places(tmp_path / "calls/x/*") == ["b", "d", "y/c"]
    assert places(tmp_path / "c*/x/*.mp3") == ["calls/x/d"]
    assert places(tmp_path / "calls/**/*.wav", root=tmp_path) == ["calls/a", "calls/x/b", "calls/x/y/c"]


def test_patterns_of_one_folder_are_one_input_and_those_of_two_lead_with_their_names(tmp_path: Path) -> None:
    touch(tmp_path, "calls/a.wav", "calls/b.mp3", "talks/a.wav")
    assert places(tmp_path / "calls/*.wav", tmp_path / "calls/*.mp3") == ["a", "b"]
    assert places(tmp_path / "calls/*.wav", tmp_path / "calls/?.wav") == ["a"]
    assert places(tmp_path / "calls/*.wav", tmp_path / "talks/*.wav") == ["calls/a", "talks/a"]
    assert places(tmp_path / "calls/*.wav", tmp_path / "talks") == ["calls/a", "talks/a"]


def test_a_pattern_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "a.wav", "x/b.wav")
    monkeypatch.chdir(tmp_path)
    assert places(Path("*.wav")) == ["a"]


@pytest.mark.parametrize("name", ["a*.wav", "a[1].wav", "what?.wav", "[x]"])
def test_a_file_that_is_called_like_a_pattern_is_taken_as_itself(tmp_path: Path, name: str) -> None:
    touch(tmp_path, name, "ab.wav", "a1.wav")
    assert [item.source for item in discover([tmp_path / name], output=OUT).items] == [tmp_path / name]


def test_a_folder_that_matches_is_searched_to_the_bottom(tmp_path: Path) -> None:
    touch(tmp_path, "2026-01/x/a.wav", "2026-01/cover.jpg", "2026-02/b.wav", "2025-12/c.wav")
    found = discover([tmp_path / "2026-0[12]"], output=OUT)
    assert [str(item.relpath) for item in found.items] == ["2026-01/x/a", "2026-02/b"]
    assert found.not_taken == {"ignored": 1}


def test_a_pattern_that_says_the_kind_of_file_is_taken_by_its_word(tmp_path: Path) -> None:
    touch(tmp_path, "a.bin", "b.wav", "c.txt")
    assert places(tmp_path / "*.bin") == ["a.bin"]
    found = discover([tmp_path / "*"], output=OUT)
    assert ([str(item.relpath) for item in found.items], found.not_taken) == (["b"], {"ignored": 2})


def test_a_pattern_that_nothing_matches_is_refused(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", "x/.hidden.mp3")
    with pytest.raises(UsageError, match=r"nothing matches .*/\*\.mp3$"):
        places(tmp_path, tmp_path / "*.mp3")
    with pytest.raises(UsageError, match=r"nothing matches .*/x/\*\.mp3$"):
        places(tmp_path / "x/*.mp3")
    with pytest.raises(UsageError, match=r"no such file or directory: .*/missing$"):
        places(tmp_path / "missing/*.mp3")
    with pytest.raises(UsageError, match=r"a\.wav is a file, not a folder"):
        places(tmp_path / "a.wav/*.mp3")


def test_a_pattern_does_not_look_where_nothing_can_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "x/in/a.wav", "x/locked/b.wav", "y/in/c.wav")
    real = os.scandir
    looked: list[str] = []
    monkeypatch.setattr(os, "scandir", lambda path: looked.append(str(path)) or real(path))
    assert places(tmp_path / "[x]/in/*.wav") == ["x/in/a"]
    assert looked == [str(tmp_path / name) for name in ("", "x", "x/in")]


def test_patterns_follow_links_once_and_loops_end(tmp_path: Path) -> None:
    touch(tmp_path, "in/real/a.wav", "elsewhere/b.wav")
    (tmp_path / "in/loop").symlink_to(tmp_path / "in")
    (tmp_path / "in/real/loop").symlink_to(tmp_path / "in")
    (tmp_path / "in/far").symlink_to(tmp_path / "elsewhere")
    assert places(tmp_path / "in/**/*.wav") == ["far/b", "real/a"]


def test_a_listed_name_is_never_a_pattern(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav")
    with pytest.raises(UsageError, match="no such file or directory"):
        discover([], listed=[tmp_path / "*.wav"], output=OUT)


# --- filters ---------------------------------------------------------------------------------------------------------

NOW = 1_800_000_000.0


def filtered(*inputs: Path, include: str = "", exclude: str = "", **options: object) -> Found:
    by_name = [tuple(pattern(text) for text in texts.split()) for texts in (include, exclude)]
    times = {name: options.pop(name) for name in ("newer_than", "min_age") if name in options}
    filters = Filters(*by_name, now=NOW, **times)  # type: ignore[arg-type]
    return discover(inputs, filters=filters, output=OUT, **options)  # type: ignore[arg-type]


def taken(found: Found) -> list[str]:
    return [str(item.relpath) for item in found.items]


def test_include_and_exclude_see_the_path_below_the_input(tmp_path: Path) -> None:
    touch(tmp_path, "in/a.wav", "in/a-hold.wav", "in/old/b.wav", "in/x/old/c.wav", "in/d.txt", "in/e.mp3")
    found = filtered(tmp_path / "in", include="*.wav", exclude="*-hold.wav old/")
    assert (taken(found), found.not_taken) == (["a"], {"excluded": 2, "excluded_folders": 2, "ignored": 1})
    assert taken(filtered(tmp_path / "in", exclude="x/old/")) == ["a", "a-hold", "e", "old/b"]
    # The input's own name, and what is above it, are no part of that path.
    assert len(taken(filtered(tmp_path / "in", exclude=f"in {tmp_path.name}"))) == 5
    assert taken(filtered(tmp_path / "in", exclude="in/x in/old", root=tmp_path)) == ["in/a", "in/a-hold", "in/e"]


def test_with_several_inputs_too(tmp_path: Path) -> None:
    touch(tmp_path, "one/x/a.wav", "one/b.wav", "two/x/c.wav", "x.wav")
    found = filtered(*(tmp_path / name for name in ("one", "two", "x.wav")), include="x/*")
    assert taken(found) == ["one/x/a", "two/x/c"]
    assert found.not_taken == {"excluded": 2}


def test_files_that_are_named_are_filtered_by_their_names(tmp_path: Path) -> None:
    touch(tmp_path, "in/a.wav", "in/a-hold.wav")
    named = [tmp_path / "in/a.wav", tmp_path / "in/a-hold.wav"]
    found = filtered(*named, exclude="*-hold.wav")
    assert (taken(found), found.not_taken) == (["a"], {"excluded": 1})
    assert taken(filtered(listed=named, exclude="in/*-hold.wav", root=tmp_path)) == ["in/a"]


def test_include_takes_a_kind_of_file_by_its_word(tmp_path: Path) -> None:
    touch(tmp_path, "a.bin", "b.wav", "x/c.bin", "x/d.txt")
    assert taken(filtered(tmp_path, include="*.bin")) == ["a.bin", "x/c.bin"]
    assert taken(filtered(tmp_path, include="x/ *.wav")) == ["b"]


def test_a_folder_that_is_excluded_is_not_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "a.wav", "lost+found/b.wav")
    real = os.scandir

    def scandir(path: str) -> object:
        if path.endswith("lost+found"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert len(filtered(tmp_path).problems) == 1
    assert filtered(tmp_path, exclude="lost+found").problems == ()
    found = filtered(tmp_path / "**/*.wav", exclude="lost+found")
    assert (taken(found), found.problems) == (["a"], ())
    # Whether the pattern would have matched in there nobody knows.
    assert taken(filtered(tmp_path / "l*/*.wav", exclude="lost+found")) == []


def aged(root: Path, **ages: float) -> None:
    for name, age in ages.items():
        touch(root, f"{name}.wav")
        os.utime(root / f"{name}.wav", (NOW - age, NOW - age))


def test_young_files_wait_and_old_ones_count(tmp_path: Path) -> None:
    aged(tmp_path, young=59, grown=61, old=7200, edge=3600)
    found = filtered(tmp_path, min_age=60, newer_than=NOW - 3600)
    assert (taken(found), found.not_taken) == (["grown"], {"waiting": 1, "older": 2})
    assert taken(filtered(tmp_path / "young.wav", min_age=60)) == []
    assert taken(filtered(listed=[tmp_path / "young.wav"], min_age=60)) == []


def test_a_clock_that_is_a_little_ahead_waits_and_one_that_is_far_does_not(tmp_path: Path) -> None:
    aged(tmp_path, soon=-30, future=-100_000)
    assert taken(filtered(tmp_path, min_age=60)) == ["future"]


def test_a_dangling_link_has_no_age_and_fails_later(tmp_path: Path) -> None:
    (tmp_path / "gone.wav").symlink_to(tmp_path / "nowhere.wav")
    assert taken(filtered(tmp_path, min_age=60)) == ["gone"]


def test_a_link_is_as_old_as_the_file(tmp_path: Path) -> None:
    aged(tmp_path, target=7200)
    (tmp_path / "x").mkdir()
    (tmp_path / "x/a.wav").symlink_to(tmp_path / "target.wav")
    assert taken(filtered(tmp_path / "x", newer_than=NOW - 3600)) == []


def test_a_file_that_two_inputs_leave_out_counts_once(tmp_path: Path) -> None:
    aged(tmp_path, a=10)
    touch(tmp_path, "b.bin")
    found = filtered(tmp_path, tmp_path / "a.wav", tmp_path / "*.wav", min_age=60)
    assert found.not_taken == {"waiting": 1, "ignored": 1}
    assert filtered(tmp_path, tmp_path / "b.bin").not_taken == {}


# --- rows of a manifest ----------------------------------------------------------------------------------------------


def row(path: Path, place: str, language: str = "de") -> Row:
    return Row(str(path), os.path.abspath(path), place, Wishes(language), 2)  # noqa: PTH100


def test_rows_have_the_place_that_is_written_and_their_wishes(tmp_path: Path) -> None:
    touch(tmp_path, "x/a.wav", "y/a.wav")
    rows = [row(tmp_path / f"{name}/a.wav", f"{name}/a.wav", name) for name in "xy"]
    found = discover([], rows=rows, output=OUT)
    assert [(str(item.relpath), item.wishes.language) for item in found.items] == [("x/a", "x"), ("y/a", "y")]
    assert taken(discover([], rows=rows, root=tmp_path.parent, output=OUT)) == [f"{tmp_path.name}/{n}/a" for n in "xy"]


def test_an_input_beside_rows_keeps_its_places_and_gets_their_wishes(tmp_path: Path) -> None:
    touch(tmp_path, "calls/a.wav", "calls/b.wav", "far/c.wav")
    rows = [row(tmp_path / "calls/../calls/a.wav", "calls/a.wav"), row(tmp_path / "far/c.wav", "far/c.wav")]
    found = discover([tmp_path / "calls"], rows=rows, output=OUT)
    assert [(str(item.relpath), item.wishes) for item in found.items] == [
        ("a", Wishes("de")), ("b", Wishes()), ("far/c", Wishes("de"))
    ]  # fmt: skip


def test_a_row_s_file_that_is_not_there_is_a_problem_and_the_others_are_taken(tmp_path: Path) -> None:
    touch(tmp_path, "a.wav", "folder/b.wav")
    found = discover([], rows=[row(tmp_path / name, name) for name in ("a.wav", "gone.wav", "folder")], output=OUT)
    assert taken(found) == ["a"]
    assert [(problem.path.name, problem.stage, problem.cause) for problem in found.problems] == [
        ("gone.wav", "discover", "no such file, or it cannot be looked at (line 2 of the manifest)"),
        ("folder", "discover", "a folder, and a row names a file (line 2 of the manifest)"),
    ]


def test_rows_are_filtered_as_well_and_take_any_kind_of_file(tmp_path: Path) -> None:
    aged(tmp_path, young=10, grown=100)
    touch(tmp_path, "x.bin")
    os.utime(tmp_path / "x.bin", (0, 0))
    rows = [row(tmp_path / name, name) for name in ("young.wav", "grown.wav", "x.bin")]
    found = filtered(rows=rows, min_age=60)
    assert (taken(found), found.not_taken) == (["grown", "x.bin"], {"waiting": 1})
    found = filtered(tmp_path, rows=rows, min_age=60)
    assert (taken(found), found.not_taken) == (["grown", "x.bin"], {"waiting": 1})


def test_two_rows_whose_outputs_would_be_one_are_refused(tmp_path: Path) -> None:
    touch(tmp_path, "x/a.wav", "y/a.wav")
    with pytest.raises(UsageError, match="would be written to the same output"):
        discover([], rows=[row(tmp_path / "x/a.wav", "a.wav"), row(tmp_path / "y/a.wav", "a.wav")], output=OUT)


# --- odd names -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["with space", 'it\'s "quoted"', "new\nline", "tab\there", "-dash", "a\\b", "\u202eodd"]
)
def test_odd_names_come_through_every_way(tmp_path: Path, name: str) -> None:
    touch(tmp_path, f"{name}/{name}.wav")
    path = tmp_path / name / f"{name}.wav"
    for found in (
        discover([tmp_path], output=OUT),
        discover([tmp_path / "**/*.wav"], output=OUT),
        filtered(tmp_path, include="*.wav"),
        discover([], rows=[row(path, f"{name}/{name}.wav")], output=OUT),
    ):
        assert [(item.source, item.relpath) for item in found.items] == [(path, Path(name, name))]


@pytest.mark.skipif(sys.platform == "darwin", reason="this file system takes UTF-8 names only")
def test_patterns_and_filters_take_names_that_are_no_utf8(tmp_path: Path) -> None:
    touch(tmp_path, os.fsdecode(b"caf\xe9/\xff.wav"))
    for found in (discover([tmp_path / "caf?/*.wav"], output=OUT), filtered(tmp_path, include="caf?/")):
        assert [os.fsencode(item.relpath) for item in found.items] == [b"caf\xe9/\xff"]
    assert taken(filtered(tmp_path, exclude=os.fsdecode(b"caf\xe9"))) == []
