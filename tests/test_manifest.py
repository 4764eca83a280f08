"""A csv of recordings: how it is read, and what is said of one that cannot be understood."""

from __future__ import annotations

import io
import os
import random
import re
import sys
from pathlib import Path

import pytest

from mlxbatch.errors import UsageError
from mlxbatch.manifest import Row, read_manifest
from mlxbatch.types import Wishes


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    return tmp_path / "calls.csv"


def read(calls: Path, content: str | bytes) -> list[Row]:
    calls.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_manifest(calls)


def wishes(calls: Path, content: str | bytes) -> dict[str, Wishes]:
    return {row.place: row.wishes for row in read(calls, content)}


def complaint(calls: Path, content: str | bytes) -> str:
    with pytest.raises(UsageError) as raised:
        read(calls, content)
    message = str(raised.value)
    assert message.startswith(f"{calls}, line "), message
    return message.removeprefix(f"{calls}, ")


def test_all_columns(calls: Path) -> None:
    content = """path,language,channels,speakers,prompt
a.wav,de,split,"agent,customer",Hello Mrs Koch
b.wav,German,1,agent;customer,
c.wav,,MIX,,"A ""hot"" line, so called"
d.wav
"""
    assert wishes(calls, content) == {
        "a.wav": Wishes("de", "split", ("agent", "customer"), "Hello Mrs Koch"),
        "b.wav": Wishes("de", 1, ("agent", "customer"), None),
        "c.wav": Wishes(None, "mix", None, 'A "hot" line, so called'),
        "d.wav": Wishes(),
    }


def test_paths_are_relative_to_the_csv(calls: Path) -> None:
    folder = calls.parent
    rows = read(calls, f'path\n2026/a.wav\n./x/../b.wav\n../c.wav\n{folder}/deep/d.wav\n..e/f g\'s "h".wav\n/x/i.wav\n')
    places = {
        "2026/a.wav": "2026/a.wav",
        "b.wav": "b.wav",
        "../c.wav": "c.wav",
        "deep/d.wav": "deep/d.wav",
        '..e/f g\'s "h".wav': '..e/f g\'s "h".wav',
        "/x/i.wav": "i.wav",
    }
    assert [row.absolute for row in rows] == [os.path.abspath(folder / name) for name in places]  # noqa: PTH100
    assert [row.place for row in rows] == list(places.values())


def test_a_csv_in_the_working_directory(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(calls.parent)
    (row,) = read(Path("calls.csv"), "path\nx/a.wav\n")
    assert (row.source, row.absolute, row.place) == ("x/a.wav", str(calls.parent / "x/a.wav"), "x/a.wav")


@pytest.mark.parametrize(
    "content",
    [
        "\ufeffpath,language,prompt\r\na.wav,en,x\r\n",
        "path;language;prompt\na.wav;en;x\n",
        "path\tlanguage\tprompt\na.wav\ten\tx\n",
        " Path , LANGUAGE,prompt\n a.wav , en , x \n",
        '"path","language","prompt"\n"a.wav","en","x"',
        "\n\nprompt,language,path,,\n,,,,\nx,en,a.wav,,\n\n",
        "path,language,prompt\ra.wav,en,x\r",
        '"path"; "language"; "prompt"\n"a.wav"; "en"; "x"\n',
    ],
    ids=["windows", "semicolons", "tabs", "spaces", "quotes", "blank lines and columns", "old mac", "spaced quotes"],
)
def test_the_ways_in_which_programs_write_it(calls: Path, content: str) -> None:
    assert wishes(calls, content) == {"a.wav": Wishes("en", None, None, "x")}


def test_a_comma_in_values_does_not_make_a_semicolon_file_one_of_commas(calls: Path) -> None:
    assert wishes(calls, "path;prompt\na,b,c.wav;x, y, z\n") == {"a,b,c.wav": Wishes(prompt="x, y, z")}


def test_a_line_end_in_quotes_is_part_of_the_value_and_lines_are_counted_as_an_editor_does(calls: Path) -> None:
    content = 'path,prompt,language\n"with\nnew line.wav","one\r\ntwo",en\na.wav,,xx\n'
    assert "line 5: column language" in complaint(calls, content)
    assert wishes(calls, content.replace("xx", "fr")) == {
        "with\nnew line.wav": Wishes("en", prompt="one\r\ntwo"),
        "a.wav": Wishes("fr"),
    }


def test_the_same_row_twice_is_one_and_two_minds_about_one_recording_are_refused(calls: Path) -> None:
    assert len(read(calls, "path,language\na.wav,en\n./a.wav,English\n")) == 1
    found = complaint(calls, "path,language\na.wav,en\nb.wav,en\nx/../a.wav,de\n")
    assert found == f"line 4: {calls.parent}/x/../a.wav is in line 2 already, with other values"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "line 1: no column path, which names the recordings (there are: path, language, channels, speakers,"),
        ("language,prompt\nen,x\n", "line 1: no column path, "),
        ("a.wav\nb.wav\n", "line 1: unknown column 'a.wav' (there are: path,"),
        ("path,langauge\na.wav,en\n", "line 1: unknown column 'langauge'; did you mean 'language'? (there are: path,"),
        ("path|language\na.wav|en\n", "line 1: unknown column 'path|language'"),
        ("path,,language\na.wav,,en\n", "line 1: unknown column ''"),
        ("path,path\na.wav,b.wav\n", "line 1: two columns are called path"),
        ("path,language\n,en\n", "line 2: column path: empty, and names no file"),
        ("path\na\0b.wav\n", "line 2: column path: a NUL byte is in it"),
        ("path,language\na.wav,\nb.wav,germna\n", "line 3: column language: unknown language 'germna'; did you mean"),
        ("path,channels\na.wav,left\n", "line 2: column channels: 'left' is not mix, split, or a channel's number,"),
        ("path,channels\na.wav,-1\n", "line 2: column channels: '-1' is not mix"),
        ("path,channels\na.wav,²\n", "line 2: column channels: '²' is not mix"),
        ("path,speakers\na.wav,agent;\n", "line 2: column speakers: 'agent;' does not name each channel once, as in"),
        ("path,speakers\na.wav,a;a\n", "line 2: column speakers: 'a;a' does not name each channel once"),
        ("path,language\na.wav,en,x\n", "line 2: 3 values, and the header has 2 columns: a value with a comma in it"),
        ("path;prompt\na.wav;x;y\n", "line 2: 3 values, and the header has 2 columns: a value with a semicolon in it"),
        ('path,prompt\na.wav,"x"y\n', "line 2: not csv: "),
        ('path,prompt\nb.wav,\na.wav,"x\n\n', "line 3: not csv: unexpected end of data"),
        (f"path,prompt\na.wav,{'x' * 200_000}\n", "line 2: not csv: field larger than field limit"),
        (b"path\ncaf\xe9.wav\n", "line 2: not UTF-8: save it as CSV in UTF-8"),
        ("path\na.wav\n".encode("utf-16"), "line 1: not UTF-8"),
    ],
)
def test_what_cannot_be_understood_is_said_with_its_line(calls: Path, content: str | bytes, expected: str) -> None:
    assert complaint(calls, content).startswith(expected)


def test_whatever_is_in_it_is_read_or_refused_in_one_line(calls: Path) -> None:
    """1,000 mutations of a good one, and nothing else ever comes of them."""
    dice = random.Random(5)
    good = b'\xef\xbb\xbfpath;language;channels;speakers;prompt\r\na.wav;de;split;"a;b";"x ""y""\nz"\r\nb.wav;;1;;\r\n'
    refusals = []
    for _ in range(1000):
        content = bytearray(good)
        for _ in range(dice.randint(1, 4)):
            at = dice.randrange(len(content))
            content[at : at + dice.choice((0, 0, 1, 5))] = dice.choice(
                (b"", b'"', b";", b",", b"\n", b"\0", b"\xe9", b"a")
            )
        try:
            read(calls, bytes(content))
        except UsageError as error:
            refusals.append(str(error))
    assert 100 < len(refusals) < 1000
    assert not [message for message in refusals if not message.isprintable()]


def test_a_manifest_without_rows_has_none(calls: Path) -> None:
    assert read(calls, "path,language\n\n,,\n") == []


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"path\nx/a.wav\n")))
    (row,) = read_manifest(Path("-"))
    assert (row.source, row.place) == ("x/a.wav", "x/a.wav")


def test_a_pipe_of_the_shell_s_has_no_folder() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"path\nx/a.wav\n")
    os.close(writing)
    try:
        (row,) = read_manifest(Path(f"/dev/fd/{reading}"))
    finally:
        os.close(reading)
    assert (row.source, row.place) == ("x/a.wav", "x/a.wav")


def test_a_manifest_that_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the manifest .*/missing\.csv cannot be read: No such file or directory"):
        read_manifest(tmp_path / "missing.csv")


def test_the_document_s_manifest_is_one(calls: Path) -> None:
    document = (Path(__file__).resolve().parents[1] / "docs" / "inputs.md").read_text("utf-8")
    (content,) = re.findall(r"```csv\n(.*?)```", document, re.DOTALL)
    assert wishes(calls, content) == {
        "2026/0001.wav": Wishes("de", "split", ("agent", "customer"), None),
        "2026/0002.wav": Wishes("en", 0, None, "Acme, Mr Koch, invoice"),
        "2026/0003.wav": Wishes(),
    }
