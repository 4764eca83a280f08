"""What the machine has left, and what a run uses of it."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from mlxbatch import machine
from mlxbatch.machine import (
    Machine,
    Sampler,
    cgroup_room,
    darwin_pressure,
    memory_pressure,
    psi_pressure,
    read_machine,
    rss,
)

GB = 10**9
CALM = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
SHORT = "some avg10=12.31 avg60=4.02 avg300=0.95 total=5731094\nfull avg10=3.50 avg60=1.11 avg300=0.26 total=1893310\n"
THRASHING = "some avg10=64.00 avg60=20.55 avg300=5.15 total=99\nfull avg10=41.27 avg60=13.80 avg300=3.52 total=70\n"
# Kernels before 5.13 have no `full` line for some resources; a torn or foreign text says nothing.
SOME_ONLY = "some avg10=10.00 avg60=0.00 avg300=0.00 total=1\n"


def tree(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def group_v2(limit: str, current: int, *, cached: int = 0, at: str = "") -> dict[str, str]:
    stat = f"anon 5\nfile {cached}\nshmem 77\ninactive_file {cached - cached // 3}\nactive_file {cached // 3}\n"
    return {f"{at}memory.max": limit, f"{at}memory.current": str(current), f"{at}memory.stat": stat}


@pytest.mark.parametrize(
    ("line", "files", "room"),
    [
        ("0::/\n", group_v2("1000\n", 400), 600),
        ("0::/\n", group_v2("1000\n", 900, cached=300), 400),
        ("0::/\n", group_v2("max\n", 900), None),
        ("0::/\n", group_v2("1000\n", 1100), 0),
        # The group above has less left than the group itself.
        ("0::/a/b\n", group_v2("1000\n", 100, at="a/b/") | group_v2("2000\n", 1950, at="a/"), 50),
        # A limit whose usage cannot be read says nothing of what is left.
        ("0::/\n", {"memory.max": "1000\n"}, None),
        ("", {}, None),
        (
            "4:memory:/docker/x\n",
            {
                "memory/docker/x/memory.limit_in_bytes": "5000\n",
                "memory/docker/x/memory.usage_in_bytes": "4500\n",
                "memory/docker/x/memory.stat": "inactive_file 1\ntotal_inactive_file 700\ntotal_active_file 300\n",
            },
            1500,
        ),
    ],
)
def test_what_the_control_group_still_gives(tmp_path: Path, line: str, files: dict[str, str], room: int | None) -> None:
    proc = tree(tmp_path / "proc", {"self/cgroup": line})
    assert cgroup_room(proc, tree(tmp_path / "cgroup", files)) == room


def test_available_is_never_more_than_the_group_gives(tmp_path: Path) -> None:
    proc = tree(tmp_path / "proc", {"self/cgroup": "0::/\n", "pressure/memory": SHORT})
    here = read_machine(proc, tree(tmp_path / "cgroup", group_v2("90000000\n", 30_000_000)))
    assert (here.available, here.total) == (60_000_000, 90_000_000)


def test_without_a_limit_it_is_the_machine_s(tmp_path: Path) -> None:
    here = read_machine(tmp_path, tmp_path)
    assert 0 < here.available < here.total == psutil.virtual_memory().total
    assert here.pressure == "normal"
    assert here.load == pytest.approx(os.getloadavg()[0], abs=2)


def test_a_version_1_limit_that_is_none_leaves_the_machine_s(tmp_path: Path) -> None:
    files = {"memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/memory.usage_in_bytes": "628912128\n"}
    here = read_machine(tmp_path, tree(tmp_path / "cgroup", files))
    assert here.total == psutil.virtual_memory().total
    assert 0 < here.available < here.total


def test_this_machine_can_be_read() -> None:
    here = read_machine()
    assert 0 < here.available <= here.total
    assert here.pressure in ("normal", "warn", "critical")


@pytest.mark.parametrize(
    ("text", "level"),
    [
        (CALM, "normal"),
        (SHORT, "warn"),
        (THRASHING, "critical"),
        (SOME_ONLY, "warn"),
        (SOME_ONLY.replace("10.00", "9.99"), "normal"),
        ("", "normal"),
        ("not a pressure file\n", "normal"),
    ],
)
def test_stall_times_as_levels(text: str, level: str) -> None:
    assert psi_pressure(text) == level


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's files")
@pytest.mark.parametrize(
    ("whole", "own", "between", "level"),
    [
        (CALM, CALM, CALM, "normal"),
        (SHORT, CALM, CALM, "warn"),
        (SHORT, THRASHING, CALM, "critical"),
        (CALM, CALM, THRASHING, "normal"),
        ("", "", "", "normal"),
    ],
)
def test_pressure_is_the_worse_of_machine_and_own_group(
    tmp_path: Path, whole: str, own: str, between: str, level: str
) -> None:
    proc = tree(tmp_path / "proc", {"self/cgroup": "0::/user/me\n", "pressure/memory": whole})
    groups = {"user/memory.pressure": between, "user/me/memory.pressure": own}
    assert memory_pressure(proc, tree(tmp_path / "cgroup", groups)) == level


def test_pressure_of_a_container_is_at_the_top(tmp_path: Path) -> None:
    proc = tree(tmp_path / "proc", {"self/cgroup": "0::/not/visible/here\n"})
    expected = "warn" if sys.platform == "linux" else memory_pressure(proc, tmp_path)
    assert memory_pressure(proc, tree(tmp_path / "cgroup", {"memory.pressure": SHORT})) == expected


@pytest.mark.parametrize(
    ("level", "pressure"), [(1, "normal"), (2, "warn"), (4, "critical"), (None, "normal"), (0, "normal")]
)
def test_levels_of_macos(level: int | None, pressure: str) -> None:
    assert darwin_pressure(level) == pressure


@pytest.mark.skipif(sys.platform != "darwin", reason="asks macOS's kernel")
def test_macos_tells_its_level() -> None:
    assert machine._sysctl("kern.memorystatus_vm_pressure_level") in (1, 2, 4)
    assert machine._sysctl("kern.no_such_name") is None


# ---- the sampler

HERE = Machine(available=5 * GB, total=8 * GB, pressure="normal", load=0.5)


def spin(seconds: float) -> None:
    """Use the processor for so long, whatever else runs on it."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_a_reading_of_the_gpu_holds_for_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = iter([0.25, None, 0.75])
    monkeypatch.setattr(machine, "gpu_reader", lambda kind: lambda: next(shares))
    sampler = Sampler(100.0, kind="gpu")
    times = (100.5, 101.5, 105.4, 105.5, 110.4, 110.5)
    assert [sampler.sample(now, HERE)["gpu"] for now in times] == [0.25, 0.25, 0.25, None, None, 0.75]


def test_a_system_without_a_load_average(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> tuple[float, float, float]:
        raise OSError("Load averages are unobtainable")

    monkeypatch.setattr(os, "getloadavg", fail)
    assert read_machine().load is None


def test_a_sample_is_of_the_time_since_the_last() -> None:
    sampler = Sampler(0.0, kind="cpu")
    spin(0.4)
    cores = psutil.cpu_count()
    first = sampler.sample(1.0, HERE)
    assert first["cpu"] == pytest.approx(0.4 / cores, rel=0.3)
    again = sampler.sample(2.0, HERE)
    assert again["cpu"] is not None
    assert again["cpu"] < 0.1
    assert first["machine_cpu"] is not None
    assert 0 < first["machine_cpu"] <= 1
    assert (first["gpu"], first["load"], first["available"]) == (None, 0.5, 5 * GB)
    assert first["parent_rss"] == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)


def test_no_time_is_no_share() -> None:
    assert Sampler(7.0, kind="cpu").sample(7.0, HERE)["cpu"] is None


def _wait(then: multiprocessing.synchronize.Event, done: multiprocessing.synchronize.Event) -> None:
    spin(0.4)
    done.set()
    then.wait()


def test_children_count_while_they_live_and_once_they_have_ended() -> None:
    context = multiprocessing.get_context("spawn")
    then, done = context.Event(), context.Event()
    sampler = Sampler(0.0, kind="cpu")
    process = context.Process(target=_wait, args=(then, done))
    process.start()
    assert done.wait(30)
    living = sampler.sample(1.0, HERE)
    then.set()
    process.join()
    ended = sampler.sample(2.0, HERE)
    # It used 0.4 s at least, and its start some more.
    assert living["cpu"] is not None
    assert living["cpu"] > 0.35 / psutil.cpu_count()
    # Nothing of it is counted twice, or taken back.
    assert ended["cpu"] is not None
    assert 0 <= ended["cpu"] < 0.35 / psutil.cpu_count()


def test_memory_of_a_process_that_is_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    assert rss(process.pid) is None
    assert rss(os.getpid()) == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)
