"""`mlxbatch profiles`."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
import typer.main

from mlxbatch.cli import app
from mlxbatch.hardware import this_hardware
from mlxbatch.profile import OPTIONS_ALONE, load, package_profiles
from mlxbatch.profile_schema import allowed

from .conftest import Cli


def test_the_list_marks_the_one_in_use(cli: Cli) -> None:
    ran = cli("profiles", "list")
    assert ran.code == 0
    marked = [line.split()[1] for line in ran.out.splitlines() if line.startswith("* ")]
    assert marked == [load().sources[-1].stem]
    assert "apple-silicon" in ran.out
    assert "Presets" in ran.out
    assert ran.out.splitlines()[-1] == f"{marked[0]}, chosen by {this_hardware().words}"


def test_the_list_as_json(cli: Cli) -> None:
    records = cli("profiles", "list", "--json").records
    assert {record["name"] for record in records} >= {"apple-silicon", "linux-cpu"}
    assert {record["name"] for record in records if record["kind"] == "preset"} == {"live", "qa"}
    assert sum(record["chosen"] for record in records) == 1
    assert all(record["description"] for record in records)


def test_a_settings_file_chooses_a_preset(cli: Cli) -> None:
    Path("mlxbatch.toml").write_text('preset = "live"\n')
    ran = cli("profiles", "list")
    assert "* live" in ran.out
    assert " + live, chosen by " in ran.out


def test_show_says_where_each_setting_is_from(cli: Cli) -> None:
    Path("mlxbatch.toml").write_text("[pipeline]\nworkers = 3\n")
    ran = cli("profiles", "show", "linux-cpu", "--preset", "qa")
    from_of = dict(line.split(" # ") for line in ran.out.splitlines() if " # " in line)
    found = {key.split(" = ")[0]: where for key, where in from_of.items()}
    assert found["workers"] == "mlxbatch.toml:2"
    assert found["wired_limit"] == "default"
    preset = (package_profiles() / "presets" / "qa.toml").read_text().splitlines()
    file, _, line = found["channels"].rpartition(":")
    assert (Path(file).name, preset[int(line) - 1]) == ("qa.toml", 'channels = "split"')
    file, _, line = found["batch_size"].rpartition(":")
    assert (Path(file).name, preset[int(line) - 1][:23]) == ("qa.toml", "transcribe.batch_size =")
    file, _, line = found["dtype"].rpartition(":")
    assert Path(file).name == "linux-cpu.toml"
    record = json.loads(cli("profiles", "show", "linux-cpu", "--preset", "qa", "--json").out)
    assert record["from"]["pipeline.workers"] == "mlxbatch.toml:2"
    assert record["transcribe"]["channels"] == "split"


def test_a_settings_file_chooses(cli: Cli) -> None:
    Path("mlxbatch.toml").write_text('profile = "apple-silicon"\n')
    assert "* apple-silicon" in cli("profiles", "list").out


def test_show_prints_the_settings_in_effect_as_a_profile(cli: Cli) -> None:
    Path("mlxbatch.toml").write_text("[transcribe]\nbatch_size = 5\n")
    ran = cli("profiles", "show", "linux-cpu")
    assert ran.code == 0
    tree = tomllib.loads(ran.out)
    assert (tree["schema"], tree["name"], tree["transcribe"]["batch_size"]) == (1, "linux-cpu", 5)
    assert "linux-cpu.toml, mlxbatch.toml" in ran.err
    Path("mlxbatch.toml").unlink()
    Path("mine.toml").write_text(ran.out)
    assert cli("profiles", "check", "mine.toml").out == "mine.toml: ok\n"
    assert tomllib.loads(cli("profiles", "show", "mine.toml").out) == tree
    assert json.loads(cli("profiles", "show", "linux-cpu", "--json").out)["device"]["kind"] == "cpu"


def test_show_says_when_a_profile_is_meant_for_another_machine(cli: Cli) -> None:
    others = [name for name in ("apple-m4", "linux-cpu") if load(name).notes]
    assert others
    for name in others:
        assert f"profile {name} is meant for" in cli("profiles", "show", name).err


def test_check_says_ok_of_those_that_come_with_the_package(cli: Cli) -> None:
    found = sorted(package_profiles().rglob("*.toml"))
    assert {"qa", "live"} <= {path.stem for path in found}
    ran = cli("profiles", "check", *found)
    assert ran.code == 0
    assert ran.out.count(": ok\n") == len(found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('schema = 1\nname = "x"\n[device]\nknd = "cpu"\n', ["mine.toml:4", "'device.kind'"]),
        ('schema = 1\nname = "x"\n[transcribe]\nbatch_size = 0\n', ["mine.toml:4", "from 1 to 64"]),
        ('schema = 1\nname = "x"\n[[when]]\nmemory_form = "1GB"\n', ["mine.toml:4", "'memory_from'"]),
        ('schema = 1\nname = "x"\nbase = "linux-cpi"\n', ["mine.toml:3", "did you mean 'linux-cpu'?"]),
        ("schema = \n", ["mine.toml:1", "not valid TOML"]),
        ('base = "linux-cpu"\n[transcribe]\nbatch_size = 0\n', ["mine.toml:3", "from 1 to 64"]),
        ('[transcribe]\nchanels = "split"\n', ["mine.toml:2", "'transcribe.channels'"]),
    ],
)
def test_check_says_what_is_wrong_where(cli: Cli, text: str, words: list[str]) -> None:
    Path("mine.toml").write_text(text)
    ran = cli("profiles", "check", "mine.toml")
    assert ran.code == 2
    assert all(word in ran.error for word in words), ran.error


def test_check_of_a_file_alone_ignores_the_settings_here(cli: Cli) -> None:
    Path("mlxbatch.toml").write_text("broken = ")
    assert cli("profiles", "check", package_profiles() / "linux-cpu.toml").code == 0


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("p.toml", '[transcribe]\nchannels = "split"\n', "ok, as a preset (a profile has a schema)"),
        ("mlxbatch.toml", 'preset = "qa"\n', "ok, as settings"),
        ("config.toml", "transcribe.batch_size = 3\n", "ok, as settings"),
        ("p.toml", 'schema = 1\nname = "p"\n', "ok"),
    ],
)
def test_check_is_no_stricter_than_use(cli: Cli, file: str, text: str, said: str) -> None:
    Path(file).write_text(text)
    ran = cli("profiles", "check", file)
    assert (ran.code, ran.out) == (0, f"{file}: {said}\n"), ran.err


def test_check_goes_on_after_a_file_that_is_wrong(cli: Cli) -> None:
    Path("a.toml").write_text("[transcribe]\nbatch_size = 0\n")
    Path("b.toml").write_text("[transcribe]\nbatch_size = 1\n")
    ran = cli("profiles", "check", "a.toml", "none.toml", "b.toml")
    assert ran.code == 2
    assert ran.out == "b.toml: ok, as a preset (a profile has a schema)\n"
    assert "/a.toml:2: transcribe.batch_size = 0: must be " in ran.err.splitlines()[0]
    assert ran.err.splitlines()[1] == "mlxbatch: cannot read none.toml: No such file or directory"
    assert ran.error == "mlxbatch: error: 2 of 3 files are not right"


def test_check_of_a_file_that_is_not_there_is_about_the_file(cli: Cli) -> None:
    assert cli("profiles", "check", "none.toml").error == (
        "mlxbatch: error: cannot read none.toml: No such file or directory"
    )


def test_the_options_that_no_file_sets_are_those_of_the_command_line() -> None:
    command = typer.main.get_command(app).commands["transcribe"]
    names = {str(one.envvar).removeprefix("MLXBATCH_").lower() for one in command.params if one.envvar}
    keys = {key.rpartition(".")[2] for key in allowed()} | {"profile", "preset", "temperature"}
    assert names - keys == OPTIONS_ALONE


def test_an_unknown_profile(cli: Cli) -> None:
    ran = cli("profiles", "show", "linux-cpi")
    assert ran.code == 2
    assert "did you mean 'linux-cpu'?" in ran.error
    assert cli("profiles", "check", "none.toml").code == 2
