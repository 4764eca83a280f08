"""Whole processes, measured; what they inherit, and what is said of one that fails."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.processes import RunFailed, environment, last_word, name, run

HELD = "import os, sys; block = bytearray(200_000_000); print(os.getcwd(), os.environ.get('ASKED')); sys.exit({code})"


def test_a_process_is_measured_and_gives_what_it_printed(tmp_path: Path) -> None:
    ran = run([sys.executable, "-c", HELD.format(code=0)], tmp_path, {"ASKED": "this"})
    assert ran.output.split() == [str(tmp_path.resolve()), "this"]
    assert ran.wall > 0
    assert ran.peak_bytes > 200_000_000


def test_one_that_fails_is_named_with_its_last_word(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=rf"^{Path(sys.executable).name} ended with 3: out of paper$"):
        run([sys.executable, "-c", "import sys; print('out of paper', file=sys.stderr); sys.exit(3)"], tmp_path)


def test_a_command_is_named_without_interpreter_folders_and_options() -> None:
    assert name(["/venv/bin/python", "-m", "mlxbatch", "transcribe", "--quiet", "in"]) == "mlxbatch transcribe"
    assert name(["/bin/python", "/tmp/side.py", "/tmp/x/job.json"]) == "side.py job.json"


def test_the_last_word_is_not_the_box_around_it() -> None:
    assert (
        last_word("Usage: x\n╭─ Error ─────╮\n│ No such option: --words │\n╰─────────────╯\n")
        == "No such option: --words"
    )
    assert last_word("\n") == "no message"


def test_what_would_change_a_side_is_not_inherited() -> None:
    given = {"PATH": "/bin", "OMP_NUM_THREADS": "1", "MLXBATCH_BATCH_SIZE": "4", "MLXBATCH_CACHE": "/cache"}
    assert environment(given) == {"PATH": "/bin", "MLXBATCH_CACHE": "/cache"}
