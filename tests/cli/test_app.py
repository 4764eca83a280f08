"""The program as a whole: help, version, typos, and the one place where errors become exit codes."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from mlxbatch import __version__, errors
from mlxbatch.cli import exit_codes, models
from mlxbatch.errors import MlxBatchError

from .conftest import ROOT, Cli, program

HEAVY = ("mlx", "numpy", "soundfile", "pydantic", "transformers", "librosa", "huggingface_hub", "tokenizers", "soxr")
HEAVY += ("jinja2", "matplotlib", "psutil")


def test_importing_the_command_line_loads_nothing_heavy() -> None:
    code = f"import sys, mlxbatch.cli; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_help_is_there_at_once() -> None:
    """At most 0.3 s is asked; what takes time is to load modules, and those can be counted on any machine."""
    code = (
        "import atexit, runpy, sys;"
        f"atexit.register(lambda: print(len(sys.modules), [name for name in {HEAVY} if name in sys.modules]));"
        "sys.argv = ['mlxbatch', '--help']; runpy.run_module('mlxbatch', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    count, heavy = done.stdout.splitlines()[-1].split(maxsplit=1)
    assert heavy == "[]"
    assert int(count) < 500


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_the_program_says_what_it_can(cli: Cli, arguments: list[str]) -> None:
    ran = cli(*arguments)
    assert ran.code == 0
    commands = ("transcribe", "report", "doctor", "models", "profiles")
    assert all(word in ran.out for word in (*commands, "Examples"))
    assert ran.err == ""


@pytest.mark.parametrize("group", ["models", "profiles"])
def test_a_group_without_a_command_prints_its_help(cli: Cli, group: str) -> None:
    ran = cli(group)
    assert ran.code == 0
    assert "list" in ran.out


def test_every_command_has_help_that_teaches(cli: Cli) -> None:
    ran = cli("transcribe", "--help")
    assert ran.code == 0
    assert ran.out.count("mlxbatch transcribe") >= 4
    for panel in ("What to work on", "How to do it", "The run", "What is shown"):
        assert panel in ran.out
    for command in ("models list", "models pull", "models path", "profiles check", "convert compare"):
        assert cli(*command.split(), "--help").code == 0


def test_version(cli: Cli) -> None:
    assert cli("--version").out == f"mlxbatch {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["transcirbe", "x"], "'transcribe'"),
        (["models", "lst"], "'list'"),
        (["transcribe", "x", "-o", "out", "--fromat", "srt"], "--format"),
        (["transcribe", "x"], "--output"),
        (["transcribe", "x", "-o", "out", "--workers", "two"], "--workers"),
        (["models", "path"], "NAME"),
    ],
)
def test_a_usage_error_is_one_line_with_the_way_out(cli: Cli, arguments: list[str], hint: str) -> None:
    ran = cli(*arguments)
    assert ran.code == 2
    assert hint in ran.error
    assert "--help" in ran.error
    assert ran.out == ""


def _raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(name: str, *, offline: bool) -> None:
        raise error

    monkeypatch.setattr(models, "_print_path", fail)


def _classes() -> list[type[MlxBatchError]]:
    return [MlxBatchError, *exit_codes.subclasses(MlxBatchError)]


@pytest.mark.parametrize("kind", _classes(), ids=lambda kind: kind.__name__)
def test_every_error_of_ours_ends_with_the_code_of_its_class(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, kind: type[MlxBatchError]
) -> None:
    error = kind(Path("a.wav"), "decode", "no audio") if issubclass(kind, errors.ItemError) else kind("the cause")
    _raising(monkeypatch, error)
    ran = cli("models", "path", "x")
    assert ran.code == kind.exit_code
    assert ran.err == f"mlxbatch: {'' if issubclass(kind, errors.Interrupted) else 'error: '}{error}\n"


def test_a_bug_is_one_line_and_a_traceback_only_where_asked_for(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    _raising(monkeypatch, ZeroDivisionError("division by zero\nin detail"))
    ran = cli("models", "path", "x")
    assert ran.code == 70
    assert ran.error.startswith("mlxbatch: error: a bug of ours: ZeroDivisionError: division by zero (")
    assert "--debug" in ran.error
    for arguments in (["--debug", "models", "path", "x"], ["models", "path", "x", "--debug"]):
        ran = cli(*arguments)
        assert ran.code == 70
        assert "Traceback" in ran.err


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "state"), 3, "state: the disk is full; free some space"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), 3, "the disk quota is used up"),
        (OSError(errno.ENXIO, "No such device"), 70, "a bug of ours"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (typer.Abort(), 130, "interrupted"),
    ],
    ids=["full", "quota", "other", "ctrl-c", "abort"],
)
def test_errors_that_are_not_ours(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, words: str
) -> None:
    _raising(monkeypatch, error)
    ran = cli("models", "path", "x")
    assert ran.code == code
    if words != "interrupted":
        assert words in ran.error


def test_a_reader_that_has_gone_is_no_error_to_speak_of(recordings: Path) -> None:
    process = program("transcribe", recordings, "-o", "out", "--json", "-q", fake={"seconds_per_batch": 0.5})
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    process.stderr.close()
    process.wait(30)
    assert err == ""
    assert not Path("out/.mlxbatch/lock.json").exists()


def test_the_table_of_exit_codes_is_that_of_the_classes() -> None:
    text = (ROOT / "docs" / "operations.md").read_text("utf-8")
    assert exit_codes.updated(text) == text, "run: python -m mlxbatch.cli.exit_codes docs/operations.md"


def test_each_code_has_one_meaning() -> None:
    rows = exit_codes.meanings()
    assert sorted(rows) == [0, 1, 2, 3, 4, 5, 6, 70, 129, 130, 143]
    assert len(set(rows.values())) == len(rows)


BOOLEAN = "must be true or false (or yes or no, on or off, 1 or 0)"


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("VAD", "maybe", f"'--vad' (env var: 'MLXBATCH_VAD'): {BOOLEAN}"),
        ("OFFLINE", "2", f"'--offline' (env var: 'MLXBATCH_OFFLINE'): {BOOLEAN}"),
        ("TASK", "foo", "'--task' (env var: 'MLXBATCH_TASK'): 'foo' is not one of 'transcribe', 'translate'"),
        ("BATCH_SIZE", "x", "'--batch-size' (env var: 'MLXBATCH_BATCH_SIZE'): must be a whole number"),
        ("LATENCY_LIMIT", "x", "'--latency-limit' (env var: 'MLXBATCH_LATENCY_LIMIT'): must be a number"),
    ],
)
def test_a_variable_s_value_is_refused_in_our_words(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    monkeypatch.setenv(f"MLXBATCH_{variable}", value)
    ran = cli("transcribe", "in", "-o", "out")
    assert ran.code == 2
    assert ran.error == f"mlxbatch: error: Invalid value for {said} (see mlxbatch transcribe --help)"


def test_an_argument_s_value_is_refused_in_our_words(cli: Cli) -> None:
    said = "Invalid value for 'name': 'foo' is not one of 'transcript', 'line' (see mlxbatch schema --help)"
    assert cli("schema", "foo").error == f"mlxbatch: error: {said}"
