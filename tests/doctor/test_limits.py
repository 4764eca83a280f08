"""Limits: the process's own, set for real in children; control groups from files as the kernel writes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import psutil
import pytest

from mlxbatch.doctor.finding import Case
from mlxbatch.doctor.limits import SLAB, check, check_memory, check_shared_memory

ROOT = Path(__file__).resolve().parents[2]
CHILD = """
import json, resource, sys
from dataclasses import asdict
from mlxbatch.doctor.limits import check_ulimits
resource.setrlimit(getattr(resource, sys.argv[1]), (int(sys.argv[2]),) * 2)
print(json.dumps([asdict(one) for one in check_ulimits()]))
"""


def limited(name: str, limit: int) -> dict[str, Any]:
    """What is found by a process with a limit: everything but ok."""
    command = [sys.executable, "-c", CHILD, name, str(limit)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    (found,) = (one for one in json.loads(done.stdout) if one["level"] != "ok")
    return found


@pytest.mark.parametrize(
    ("name", "limit", "what", "remedy"),
    [
        ("RLIMIT_AS", 4 * 10**9, "address space: 4.0 GB", "ulimit -v unlimited"),
        ("RLIMIT_NOFILE", 40, "open files: 40 (ulimit -n), too few", "ulimit -n 256"),
        ("RLIMIT_NPROC", 20, "processes and threads: 20 (ulimit -u), too few", "ulimit -u 256"),
    ],
)
def test_a_ulimit_that_a_run_may_meet(name: str, limit: int, what: str, remedy: str) -> None:
    found = limited(name, limit)
    assert found["level"] == "warning"
    assert what in found["what"]
    assert remedy in found["remedy"]


@pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")
def test_a_control_group_below_the_machine(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text(f"{2 * 10**9}\n")
    found = list(check_memory(Case(), tmp_path / "proc", tmp_path))
    assert "the control group allows 2.0 GB of memory" in [one.what for one in found if one.level == "note"]


@pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")
def test_a_control_group_that_says_no_limit_in_a_number(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    found = list(check_memory(Case(), tmp_path / "proc", tmp_path))
    assert "the control group sets no memory limit" in [one.what for one in found]


def test_memory_that_others_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    before = psutil.virtual_memory()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: before._replace(available=10**8))
    found = [one for one in check_memory(Case(profile="linux-cpu")) if one.level == "note"]
    assert any("more than is available now" in one.what for one in found)


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/shm is Linux's")
def test_shared_memory_that_is_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = check_shared_memory()
    assert found.level == "ok"
    (found,) = check_shared_memory(tmp_path / "none")
    assert (found.level, "docker run --shm-size" in found.remedy) == ("problem", True)


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounts a file system: root on Linux")
def test_a_full_dev_shm_is_a_problem(tmp_path: Path) -> None:
    small = tmp_path / "shm"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount: {mounted.stderr.strip()}")
    try:
        (found,) = check_shared_memory(small)
    finally:
        subprocess.run(["umount", small], check=True)
    assert found.level == "problem"
    assert "1 MB free" in found.what


def test_the_slab_is_the_hosts() -> None:
    block = SharedMemory(create=True, size=SLAB)
    assert block.size >= SLAB
    block.close()
    block.unlink()


def test_here_all_is_looked_at() -> None:
    text = "\n".join(one.what for one in check(Case()))
    for word in ("memory: ", "address space: ", "open files: ", "processes and threads: "):
        assert word in text
