"""docs/operations.md and the examples' READMEs: what they name exists, and their alerts are Prometheus rules."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
from typer.core import TyperGroup

from mlxbatch.cli import app
from mlxbatch.profile_schema import allowed

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = (ROOT / "docs" / "operations.md").read_text("utf-8")
TEXTS = {
    name: (ROOT / name).read_text("utf-8")
    for name in (
        "docs/operations.md",
        "docs/inputs.md",
        "examples/cron/README.md",
        "examples/cron/crontab",
        "examples/launchd/README.md",
        "examples/launchd/com.example.mlxbatch.plist",
    )
}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def commands() -> dict[str, set[str]]:
    """Each command -> its options: {"transcribe": {"--output", ...}, "models pull": ...}."""
    found: dict[str, set[str]] = {}

    def visit(name: str, command: object) -> None:
        found[name] = {option for parameter in getattr(command, "params", ()) for option in parameter.opts}
        if isinstance(command, TyperGroup):
            for inner, below in command.commands.items():
                visit(f"{name} {inner}".strip(), below)

    visit("", typer.main.get_command(app))
    return found


def command_lines(text: str) -> Iterator[list[str]]:
    """The words of every `mlxbatch ...` in code: in blocks, crontab lines and back quotes."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    quoted = re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    lines = [line for block in blocks for line in block.splitlines()] + quoted
    lines += [line for line in text.splitlines() if re.match(r"[\d*]+ [\d*]+ ", line)]
    for line in lines:
        if match := re.search(r"(?:^|[\s/])mlxbatch ([a-z].*)", line.replace("\n", " ")):
            yield shlex.split(match[1].replace("\\%", "%"))


@pytest.mark.parametrize("name", TEXTS)
def test_every_option_named_exists(name: str) -> None:
    known = set().union(*commands().values())
    assert set(OPTION.findall(TEXTS[name])) - known == set()


@pytest.mark.parametrize("name", [name for name in TEXTS if not name.endswith(".plist")])
def test_every_command_line_is_one_of_its_command(name: str) -> None:
    known = commands()
    lines = list(command_lines(TEXTS[name]))
    assert lines
    for words in lines:
        verb = " ".join(words[:2]) if " ".join(words[:2]) in known else words[0]
        assert verb in known, words
        assert {word for word in words if word.startswith("--")} <= known[verb], words


def test_every_key_of_the_profile_that_is_named_exists() -> None:
    keys = {key.rpartition(".")[2] for key in allowed()}
    assert set(re.findall(r"`([a-z]+_[a-z_]+)`", DOCUMENT)) - keys == set()
    assert set(re.findall(r"`\[([a-z]+)\]`", DOCUMENT)) <= set(allowed())


def test_every_link_leads_somewhere() -> None:
    for name, text in TEXTS.items():
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            assert ((ROOT / name).parent / target).exists(), f"{name}: {target}"


@pytest.mark.promtool
@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool: sh tools/test-packages.sh")
def test_the_alerts_are_rules_that_prometheus_takes(tmp_path: Path) -> None:
    (rules,) = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)
    (tmp_path / "rules.yml").write_text(rules)
    done = subprocess.run(["promtool", "check", "rules", tmp_path / "rules.yml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "2 rules found" in done.stdout
