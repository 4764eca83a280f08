"""The example's crontab under the real cron of Debian, on real weights: one night, and one with nothing to do."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mlxbatch.models.cache import cache_root

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = (ROOT / "examples" / "cron" / "crontab").read_text("utf-8")
CRON = shutil.which("cron", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
CLIPS = ("books/sense_and_sensibility_01_austen_64kb-0880.wav", "calls/ss-noservice.wav")
# Seconds: cron looks once a minute, so two runs may take two minutes, and a while to finish.
PATIENCE = 150

# A cron with tables and a /run of its own, beside one that may run already, and all that it started ends with it.
# $0: cron, $1: for /etc/cron.d, $2: an empty folder, $3: an empty file.
ALONE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
PRIVATE = """
mount --bind "$1" /etc/cron.d && mount --bind "$2" /var/spool/cron/crontabs && mount --bind "$3" /etc/crontab &&
mount -t tmpfs tmpfs /run && exec "$0" -f
"""


def job(verb: str) -> str:
    """The example's command with this verb, without its schedule."""
    (line,) = (line for line in EXAMPLE.splitlines() if f"/mlxbatch {verb} " in line)
    return line.split(maxsplit=5)[5]


def here(command: str, place: Path) -> str:
    """The command with this machine's paths in place of the example's."""
    paths = {
        "/opt/mlxbatch/bin/mlxbatch": Path(sys.executable).with_name("mlxbatch"),
        "/srv/calls": place / "calls",
        "/srv/text": place / "text",
        "/srv/log": place / "log",
    }
    for example, real in paths.items():
        assert example in command
        command = command.replace(example, str(real))
    return command


def table(command: str) -> str:
    """The example's settings, and its job as cron starts and then each minute, in the form of /etc/cron.d."""
    settings = [line for line in EXAMPLE.splitlines() if re.match(r"[A-Z]+=", line)]
    assert len(settings) == 4
    # What `mlxbatch doctor` says that cron lacks: the models' place, and, in a source tree, the package's.
    settings += [f"PYTHONPATH={ROOT}", f"MLXBATCH_CACHE={cache_root()}"]
    return "\n".join([*settings, f"@reboot root {command}", f"* * * * * root {command}", ""])


@contextmanager
def private_cron(place: Path, text: str) -> Iterator[None]:
    """Cron in namespaces of its own: it starts the job at once, and nothing of the system is touched."""
    for name in ("cron.d", "spool"):
        (place / name).mkdir()
    (place / "cron.d" / "mlxbatch").write_text(text)
    (place / "none").touch()
    assert CRON is not None
    arguments = (CRON, str(place / "cron.d"), str(place / "spool"), str(place / "none"))
    with subprocess.Popen([*ALONE, "sh", "-c", PRIVATE, *arguments]) as process:
        try:
            yield
            assert process.poll() is None, "cron has ended"
        finally:
            process.kill()


@contextmanager
def system_cron(text: str) -> Iterator[None]:
    """Cron on the system's own tables, for containers that allow no namespaces; one that already runs is used."""
    entry = Path("/etc/cron.d/mlxbatch-test")
    assert CRON is not None
    try:
        entry.write_text(text)
        with subprocess.Popen([CRON, "-f"], stderr=subprocess.DEVNULL) as process:
            try:
                yield
            finally:
                process.send_signal(signal.SIGTERM)
    finally:
        entry.unlink()


def ended_runs(output: Path) -> list[dict[str, Any]]:
    """The `end` events of all runs that have one, the earliest run first."""
    logs = sorted((output / ".mlxbatch" / "runs").glob("*.jsonl"))
    last = [json.loads(lines[-1]) for log in logs if (lines := log.read_text("utf-8").splitlines())]
    return [event for event in last if event["event"] == "end"]


def two_runs(output: Path) -> list[dict[str, Any]]:
    deadline = time.monotonic() + PATIENCE
    while len(runs := ended_runs(output)) < 2:
        assert time.monotonic() < deadline, f"after {PATIENCE} s: {runs}"
        time.sleep(0.5)
    return runs[:2]


@pytest.mark.cron
@pytest.mark.real
@pytest.mark.skipif(CRON is None or os.geteuid() != 0, reason="needs cron, and root: sh tools/test-packages.sh")
def test_the_examples_line_runs_under_cron_and_the_next_time_has_nothing_to_do(
    tmp_path: Path, whisper_base: Path
) -> None:
    for folder in ("calls", "log"):
        (tmp_path / folder).mkdir()
    for clip in CLIPS:
        shutil.copy(ROOT / "examples" / clip, tmp_path / "calls")
    text = table(here(job("transcribe"), tmp_path))
    can_be_private = subprocess.run([*ALONE, "true"], capture_output=True).returncode == 0
    with private_cron(tmp_path, text) if can_be_private else system_cron(text):
        first, second = two_runs(tmp_path / "text")
    assert (first["outcome"], first["done"], first["failed"], first["skipped"]) == ("finished", 2, 0, 0)
    assert (second["outcome"], second["done"], second["failed"], second["skipped"]) == ("finished", 0, 0, 2)
    assert second["windows"] == 0
    texts = {path.stem: path.read_text("utf-8").lower() for path in (tmp_path / "text").glob("*.txt")}
    assert len(texts) == 2
    assert "not in service" in texts["ss-noservice"]
    assert {path.name for path in (tmp_path / "log").iterdir()} == {"mlxbatch.log", "mlxbatch.prom"}


def test_the_crontab_is_one_that_cron_takes() -> None:
    """Each line is a comment, a setting or a job; a bare % would end the command, and PATH has no mlxbatch."""
    for line in EXAMPLE.splitlines():
        assert re.match(r"#|[A-Z]+=|[\d*/,-]+( [\d*/,-]+){4} /", line), line
        assert not re.search(r"(?<!\\)%", line)
    assert "/opt/mlxbatch/bin/mlxbatch report" in job("report")
