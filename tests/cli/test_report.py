"""`mlxbatch report`: of real runs over the fake engine, in every format, to every place; and --fail-if."""

from __future__ import annotations

import json
import os
import pty
import re
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mlxbatch.discover import item_id
from mlxbatch.ledger import Ledger
from mlxbatch.report.names import NAMES
from mlxbatch.types import Item

from .conftest import ROOT, Cli, finish, noise, program, write

HEAVY = ("jinja2", "matplotlib", "numpy", "mlx")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of the program itself: the second has a broken file, and a new one."""
    place = tmp_path_factory.mktemp("report")
    write(place / "in" / "a.wav", noise(2.0, 1))
    transcribe = ("transcribe", place / "in", "-o", place / "out", "--profile", "linux-cpu")
    assert finish(program(*transcribe, fake={})).code == 0
    (place / "in" / "<b>broken.wav").write_bytes(b"not a recording")
    write(place / "in" / "c.wav", noise(3.0, 2))
    assert finish(program(*transcribe, fake={})).code == 1
    return place / "out"


def ids(out: Path) -> list[str]:
    """Of the two runs, in their order."""
    logs = sorted((out / ".mlxbatch" / "runs").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    return [path.stem for path in logs]


def test_the_table_of_the_latest_run(cli: Cli, out: Path) -> None:
    ran = cli("report", out)
    assert (ran.code, ran.err) == (0, "")
    first, sentence, detail, *_ = ran.out.splitlines()
    assert first.startswith(f"run {ids(out)[-1]}, ")
    assert sentence == "1 of 2 files is done; 1 failed; 1 more skipped."
    assert "the one earlier run with the same model and profile" in detail
    assert "<b>broken.wav" in ran.out


def test_an_earlier_run_as_json(cli: Cli, out: Path) -> None:
    ran = cli("report", out, "--run", ids(out)[0], "--format", "json")
    found = json.loads(ran.out)
    assert (ran.code, found["run"]["id"], found["run"]["figures"]["done"]) == (0, ids(out)[0], 1)
    assert found["run"]["facts"]["profile"] == "linux-cpu"
    assert found["earlier"] == []


@pytest.mark.parametrize(
    ("name", "form", "begins"),
    [
        ("night.html", None, "<!doctype html>"),
        ("night.json", None, '{\n  "schema": 1,'),
        ("night.txt", None, "run "),
        ("night", "html", "<!doctype html>"),
        ("night.html", "JSON", "{"),
    ],
)
def test_a_file_has_the_format_that_its_name_says(
    cli: Cli, out: Path, name: str, form: str | None, begins: str
) -> None:
    ran = cli("report", out, "-o", f"new/{name}", *(["--format", form] if form else []))
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert Path(f"new/{name}").read_text("utf-8").startswith(begins)
    assert [path.name for path in Path("new").iterdir()] == [name]


def test_a_page_on_standard_output_is_the_one_in_the_file(cli: Cli, out: Path) -> None:
    assert cli("report", out, "-o", "a.html").code == 0
    assert cli("report", out, "--format", "html").out == Path("a.html").read_text("utf-8")


def test_a_file_is_replaced_whole_and_a_link_is_followed(cli: Cli, out: Path) -> None:
    Path("real.json").write_text("old")
    Path("link.json").symlink_to("real.json")
    assert cli("report", out, "-o", "link.json").code == 0
    assert Path("link.json").is_symlink()
    assert Path("real.json").read_text().startswith("{")


def test_what_is_no_file_is_written_to(cli: Cli, out: Path) -> None:
    os.mkfifo("pipe")
    reader = subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE, text=True)
    assert cli("report", out, "-o", "pipe").code == 0
    assert reader.communicate(timeout=30)[0].startswith("run ")
    assert stat.S_ISFIFO(Path("pipe").stat().st_mode)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["-o", "."], 2, ["is a directory", "report.html"]),
        (["-o", "file/x.html"], 3, ["cannot write", "file", "a file is in the way"]),
        (["-o", "/proc/x.html"], 3, ["cannot write /proc"]),
        (["--format", "htm"], 2, ["unknown format 'htm'", "did you mean 'html'?"]),
        (["--run", "yesterday"], 2, ["no run 'yesterday'", "there are"]),
        (["--fail-if", "faild>1%"], 2, ["at character 1", "did you mean 'failed'?"]),
    ],
)
def test_mistakes_are_one_line(cli: Cli, out: Path, arguments: list[str], code: int, words: list[str]) -> None:
    Path("file").write_text("")
    ran = cli("report", out, *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert all(word in ran.error for word in words), ran.error


def test_where_there_are_no_runs(cli: Cli) -> None:
    ran = cli("report", "none")
    assert ran.code == 2
    assert ran.error == "mlxbatch: error: no such directory: none; name the output directory of a run"
    ran = cli("report")
    assert ran.code == 2
    assert "no runs in .: " in ran.error


def test_a_damaged_ledger_has_its_own_code(cli: Cli) -> None:
    Path(".mlxbatch").mkdir()
    Path(".mlxbatch/ledger.sqlite3").write_bytes(b"nothing" * 1000)
    ran = cli("report")
    assert ran.code == 5
    assert "is damaged" in ran.error


def test_the_output_directory_comes_from_the_environment(cli: Cli, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLXBATCH_OUTPUT", str(out))
    assert cli("report").code == 0


# ---- --fail-if


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("failed>1% or rtfx<0", "failed>1% (failed is 1 of 2, 50 %)"),
        ("skipped>=1 and not killed", "skipped>=1 (skipped is 1 of 3, 33 %); killed (killed is 0)"),
    ],
)
def test_a_condition_that_is_met(cli: Cli, out: Path, condition: str, words: str) -> None:
    ran = cli("report", out, "--fail-if", condition, "-o", "night.html")
    assert ran.code == 6
    assert ran.error == f"mlxbatch: error: --fail-if {condition!r} is met by run {ids(out)[-1]}: {words}"
    assert Path("night.html").exists()


def test_a_condition_that_is_not_met(cli: Cli, out: Path) -> None:
    ran = cli("report", out, "--fail-if", "failed>50% or stopped or peak>1TB")
    assert (ran.code, ran.err) == (0, "")


def test_a_figure_that_is_not_known_is_said_and_meets_nothing(cli: Cli, out: Path) -> None:
    ran = cli("report", out, "--fail-if", "gpu<20% or not gpu<20%")
    assert ran.code == 0
    assert ran.err == "mlxbatch: not known of this run, for --fail-if: gpu\n"


def test_a_night_with_nothing_to_do_is_not_slow(cli: Cli, fake: dict[str, Any], recordings: Path) -> None:
    for code, skipped in ((0, 0), (0, 3)):
        assert cli("transcribe", "in", "-o", "out", "--workers", "0", "-q").code == code
        found = json.loads(cli("report", "out", "--format", "json").out)["run"]["figures"]
        assert found["skipped"] == skipped
    ran = cli("report", "out", "--fail-if", "failed>1% or rtfx<5")
    assert (ran.code, ran.err) == (0, "mlxbatch: not known of this run, for --fail-if: rtfx\n")
    assert found["rtfx"] is None
    assert re.search(r"^  RTFx +-$", ran.out, re.MULTILINE)


def test_files_in_quarantine_are_not_forgotten(cli: Cli, fake: dict[str, Any], recordings: Path) -> None:
    for name in ("a.wav", "b.wav"):
        with Ledger.open(Path("out")) as ledger:
            path = recordings.relative_to(Path.cwd()) / name
            item = Item(item_id(path, "transcribe"), path, Path(name).with_suffix(""))
            ledger.failed(item, "infer", "killed", quarantined=True)
    for _ in range(2):
        assert cli("transcribe", "in", "-o", "out", "--workers", "0", "-q").code == 0
    ran = cli("report", "out", "--fail-if", "quarantined>0")
    assert ran.code == 6
    assert "quarantined>0 (quarantined is 2 of 3, 67 %)" in ran.error
    assert "There was nothing to do: 3 files skipped, 2 quarantined." in ran.out
    assert re.search(r"^  files, all runs until now +1 done, 0 failed, 2 quarantined$", ran.out, re.MULTILINE)
    assert "Quarantined" in ran.out
    assert "in/b.wav" in ran.out


def test_a_night_that_never_began(cli: Cli, out: Path) -> None:
    assert cli("report", out, "--fail-if", "age>20h").code == 0
    ran = cli("report", out, "--fail-if", "failed>50% or age>0")
    assert ran.code == 6
    assert "age>0 (age is " in ran.error


# ---- beside a run, without a place to write, without an environment


def test_beside_a_run_that_is_going_on(place: Path, recordings: Path) -> None:
    running = program("transcribe", recordings, "-o", "out", "-q", fake={"seconds_per_batch": 60.0})
    until = time.monotonic() + 30
    while not list(place.glob("out/.mlxbatch/runs/*.jsonl")) and time.monotonic() < until:
        time.sleep(0.05)
    while time.monotonic() < until:
        ran = finish(program("report", "out"))
        if ran.code == 0 and "ledger" not in ran.err:
            break
    assert "The run is going on" in ran.out
    running.terminate()
    finish(running)
    assert "The run was stopped" in finish(program("report", "out")).out


def test_reading_changes_nothing(cli: Cli, out: Path) -> None:
    def tree() -> dict[Path, tuple[int, int]]:
        return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in out.rglob("*")}

    before = tree()
    for form in ("table", "json", "html"):
        assert cli("report", out, "--format", form).code == 0
    assert tree() == before


def test_without_a_home_and_an_environment_the_page_is_made_in_silence(out: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mlxbatch", "report", str(out), "-o", "night.html"],
        env={"PATH": "/usr/bin:/bin", "HOME": "/dev/null/none", "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert Path("night.html").read_text("utf-8").startswith("<!doctype html>")


def _in_terminal(*arguments: str | Path) -> tuple[int, str]:
    """The program with a terminal as its standard output and error: exit code and what was seen."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "mlxbatch", *map(str, arguments)]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    seen = b""
    try:
        while block := os.read(ours, 4096):
            seen += block
    except OSError:
        pass  # Linux: the other end is closed
    os.close(ours)
    return process.wait(30), seen.decode()


def test_in_a_terminal_the_tables_are_drawn_and_a_page_is_refused(out: Path) -> None:
    code, seen = _in_terminal("report", out)
    assert code == 0
    assert "\x1b[" in seen
    assert "\u2500\u2500\u2500" in seen
    assert "<b>broken.wav" in seen
    code, seen = _in_terminal("report", out, "--format", "html")
    assert code == 2
    assert "-o report.html" in seen


def test_help_teaches(cli: Cli) -> None:
    ran = cli("report", "--help")
    assert ran.code == 0
    assert ran.out.count("mlxbatch report") >= 4
    assert "failed>1%" in ran.out
    names = ran.out.split("Names for --fail-if:")[1].split("and others")[0].replace("\n", " ")
    listed = [name.strip() for name in names.split(",")]
    assert set(listed) <= set(NAMES)


def test_only_the_page_loads_what_draws_it(out: Path) -> None:
    code = f"import sys, mlxbatch.cli; mlxbatch.cli.run(['report', {str(out)!r}])"
    code += f"; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "[]"
