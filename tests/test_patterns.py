"""What a pattern stands for, and which folders need not be entered for it."""

from __future__ import annotations

import fnmatch
import os
import random
import re
from pathlib import Path

import pytest

from mlxbatch.errors import UsageError
from mlxbatch.patterns import is_pattern, pattern, split


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        # A name, wherever it is.
        ("*.wav", "a.wav", True),
        ("*.wav", "deep/er/a.wav", True),
        ("*.wav", "a.WAV", False),
        ("*.wav", "a.wav.txt", False),
        ("hold", "2026/hold/a.wav", True),
        ("hold", "2026/on-hold/a.wav", False),
        ("call-?.wav", "x/call-1.wav", True),
        ("call-?.wav", "x/call-12.wav", False),
        # A path from the top.
        ("2026-*/a.wav", "2026-01/a.wav", True),
        ("2026-*/a.wav", "2026-01/x/a.wav", False),
        ("2026-*/a.wav", "old/2026-01/a.wav", False),
        ("/a.wav", "a.wav", True),
        ("/a.wav", "x/a.wav", False),
        ("2026/old", "2026/old/deep/a.wav", True),
        # Stars end at a "/", two stars do not.
        ("2026*a.wav", "2026/a.wav", False),
        ("2026/**/a.wav", "2026/a.wav", True),
        ("2026/**/a.wav", "2026/x/y/a.wav", True),
        ("2026/**", "2026/x/y/a.wav", True),
        ("2026/**", "2027/x/y/a.wav", False),
        ("**/old/**/*.wav", "x/old/y/a.wav", True),
        ("**/old/**/*.wav", "old/a.wav", True),
        ("**", "x/a.wav", True),
        ("a**b", "axxb", True),
        ("x/a**b", "x/a/b", False),
        # Folders alone.
        ("old/", "x/old/a.wav", True),
        ("old/", "x/old", False),
        ("x/old/", "x/old/a.wav", True),
        # One of some characters, never a "/".
        ("call[12].wav", "call2.wav", True),
        ("call[!12].wav", "call2.wav", False),
        ("call[^12].wav", "call3.wav", True),
        ("x/a[!b]c", "x/a/c", False),
        ("call[a-c].wav", "callb.wav", True),
        ("call[a-].wav", "call-.wav", True),
        ("call[]].wav", "call].wav", True),
        ("call[*].wav", "call*.wav", True),
        ("call[*].wav", "callx.wav", False),
        ("call[&&|~^\\].wav", "call\\.wav", True),
        ("call[.wav", "call[.wav", True),
        ("call[].wav", "call[].wav", True),
        # What else stands in names.
        ("with*", "with\nnew line.wav", True),
        ("a+(b).wav", "a+(b).wav", True),
        ("caf?.wav", "cafe\u0301.wav", True),
        ("cafe\u0301*", "caf\u00e9.wav", True),
        (os.fsdecode(b"\xe9*"), os.fsdecode(b"\xe9a.wav"), True),
    ],
)
def test_what_a_pattern_stands_for(text: str, path: str, expected: bool) -> None:
    assert pattern(text).matches(path) is expected


def test_from_the_top_a_name_is_one_of_the_first_level() -> None:
    assert pattern("*.wav", from_top=True).matches("a.wav")
    assert not pattern("*.wav", from_top=True).matches("x/a.wav")


@pytest.mark.parametrize(
    ("text", "folder", "expected"),
    [
        ("2026-*/in/*.wav", "2026-01", True),
        ("2026-*/in/*.wav", "2025-01", False),
        ("2026-*/in/*.wav", "2026-01/in", True),
        ("2026-*/in/*.wav", "2026-01/out", False),
        ("2026-*/in/*.wav", "2026-01/in/x", False),
        ("*.wav", "x", False),
        ("*.wav", "odd.wav", True),  # a folder that matches stands for all that is in it
        ("2026-*/**/*.wav", "2026-01/x/y", True),
        ("2026-*/**/*.wav", "2025-01", False),
        ("**/*.wav", "x/y", True),
        ("2026-*", "2026-01/x/y", True),
    ],
)
def test_which_folders_a_search_need_not_enter(text: str, folder: str, expected: bool) -> None:
    assert pattern(text, from_top=True).may_hold(folder) is expected


def test_a_folder_on_the_way_to_a_match_is_never_left_out(tmp_path: Path) -> None:
    """Against Python's own glob, on a tree of all short names."""
    names = [f"{a}/{b}/{c}" for a in "ab" for b in "ac" for c in ("b", "ab", "c")]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for text in ("*/a/b", "**/b", "a/**/c", "[ab]/?/a*", "**/c/**/b", "a/*/**", "a/c"):
        ours = pattern(text, from_top=True)
        theirs = {str(path.relative_to(tmp_path)) for path in tmp_path.glob(text) if path.is_file()}
        assert {name for name in names if ours.matches(name)} >= theirs
        for name in theirs:
            folders = [str(parent) for parent in Path(name).parents][:-1]
            assert all(ours.may_hold(folder) for folder in folders), (text, name)


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("*.bin", "x/a.bin", True),
        ("call[0-9]", "call7", True),
        ("x/*", "x/a.bin", False),
        ("*.*", "a.bin", False),
        ("2026-??", "2026-01/cover.jpg", False),
        ("2026-??/", "2026-01/cover.jpg", False),
        ("b?", "b1/b2", True),
        ("**", "a.bin", False),
    ],
)
def test_which_patterns_say_themselves_what_kind_of_file_is_meant(text: str, path: str, expected: bool) -> None:
    assert pattern(text).matches(path)
    assert pattern(text).names(path) is expected


def test_many_stars_take_no_longer_than_few() -> None:
    """Trying every place for every star would take longer than anybody lives."""
    assert not pattern("*a" * 20 + "*b.wav").matches("a" * 200 + ".wav")
    assert pattern("*a" * 20 + "*.wav").matches("x/" + "a" * 200 + ".wav")


def test_it_says_the_same_as_python_s_own_for_one_name() -> None:
    dice = random.Random(3)
    word = lambda letters, most: "".join(dice.choices(letters, k=dice.randint(1, most)))  # noqa: E731
    hits = 0
    for _ in range(5000):
        text, name = word("ab*?[!]-", 7), word("ab", 6)
        try:
            ours = pattern(text, from_top=True)
        except UsageError:
            continue
        theirs = fnmatch.fnmatchcase(name, text)
        hits += theirs
        assert ours.matches(name) is theirs, (text, name)
    assert hits > 200


@pytest.mark.parametrize("text", ["", "/", "."])
def test_no_pattern_at_all_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"not a pattern: '.*' \(write it as"):
        pattern(text)


def test_a_range_from_back_to_front_is_refused() -> None:
    with pytest.raises(UsageError, match=r"not a pattern: 'a\[z-a\]' \(bad character range z-a"):
        pattern("a[z-a]")


@pytest.mark.parametrize(
    ("path", "folder", "rest"),
    [
        ("calls/**/*.wav", "calls", "**/*.wav"),
        ("/data/2026-*/in/a.wav", "/data", "2026-*/in/a.wav"),
        ("*.wav", ".", "*.wav"),
        ("../x/a?.wav", "../x", "a?.wav"),
    ],
)
def test_a_path_with_a_pattern_in_it_begins_at_a_folder(path: str, folder: str, rest: str) -> None:
    assert is_pattern(Path(path))
    assert split(Path(path)) == (Path(folder), rest)


def test_an_ordinary_path_is_no_pattern() -> None:
    assert not is_pattern(Path("calls/a b{1}!.wav"))


DOCUMENT = (Path(__file__).resolve().parents[1] / "docs" / "inputs.md").read_text("utf-8")
EXAMPLES = re.findall(
    r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \|$",
    DOCUMENT.partition("## Patterns")[2].partition("## Times")[0],
    re.MULTILINE,
)


@pytest.mark.parametrize(("text", "right", "wrong"), EXAMPLES)
def test_the_document_s_examples_hold(text: str, right: str, wrong: str) -> None:
    for paths, expected in ((right, True), (wrong, False)):
        found = re.findall(r"`([^`]+)`", paths)
        assert found
        assert {path: pattern(text).matches(path) for path in found} == dict.fromkeys(found, expected)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 5
