"""The example's launch agent: a property list of the keys that launchd knows. There is no launchd here to run it."""

from __future__ import annotations

import plistlib
import re
import subprocess
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "launchd"
LABEL = "com.example.mlxbatch"
# Key -> type, from Apple's launchd.plist(5).
KNOWN = {
    "Label": str,
    "ProgramArguments": list,
    "StartCalendarInterval": dict,
    "ProcessType": str,
    "LowPriorityIO": bool,
    "ExitTimeOut": int,
    "EnvironmentVariables": dict,
    "WorkingDirectory": str,
    "StandardOutPath": str,
    "StandardErrorPath": str,
}


def agent() -> dict[str, Any]:
    loaded: dict[str, Any] = plistlib.loads((FOLDER / f"{LABEL}.plist").read_bytes())
    return loaded


def test_every_key_is_launchds_and_of_its_type() -> None:
    found = agent()
    assert {key: type(value) for key, value in found.items()} == KNOWN
    assert (found["Label"], found["ProcessType"], found["LowPriorityIO"]) == (LABEL, "Background", True)
    assert found["StartCalendarInterval"] == {"Hour": 1, "Minute": 30}


def test_the_program_is_named_as_a_launch_agent_needs_it() -> None:
    """Absolute paths, a word a string, no shell's `~`, `$` or quotes."""
    words = agent()["ProgramArguments"][3:]
    assert words[0].endswith("/bin/mlxbatch")
    assert all(isinstance(word, str) and word and not re.search(r"[\s~$'\"]", word) for word in words)
    assert all(value.startswith("/") for key, value in agent().items() if key.endswith(("Path", "Directory")))


def test_awake_while_it_runs_and_its_signals_and_exit_code_are_the_programs(tmp_path: Path) -> None:
    """The shell's line, with a caffeinate that writes down what it was given."""
    caffeinate, program = tmp_path / "caffeinate", tmp_path / "program"
    caffeinate.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/given\n')
    program.write_text(f'#!/bin/sh\necho $$ "$@"\nwhile [ ! -s {tmp_path}/given ]; do sleep 0.01; done\nexit 7\n')
    for script in (caffeinate, program):
        script.chmod(0o755)
    shell, flag, line = agent()["ProgramArguments"][:3]
    line = line.replace("/usr/bin/caffeinate", str(caffeinate))
    with subprocess.Popen([shell, flag, line, program, "a b", "c"], stdout=subprocess.PIPE, text=True) as process:
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (7, f"{process.pid} a b c\n")
    assert (tmp_path / "given").read_text() == f"-i -w {process.pid}\n"


def test_the_job_is_that_of_cron() -> None:
    crontab = (FOLDER.parent / "cron" / "crontab").read_text("utf-8")
    (line,) = (line for line in crontab.splitlines() if "/mlxbatch transcribe " in line)
    assert re.findall(r"--[a-z-]+", line) == [word for word in agent()["ProgramArguments"] if word.startswith("--")]


def test_the_readme_names_the_file_and_the_label() -> None:
    readme = (FOLDER / "README.md").read_text("utf-8")
    for words in (f"{LABEL}.plist", f'bootout "gui/$(id -u)/{LABEL}"', "was not run on a Mac", "mlxbatch doctor"):
        assert words in readme
