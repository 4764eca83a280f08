"""Who holds a lock, and whether it can be alive: restarts, containers of one name, laptops that change theirs."""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from mlxbatch.holder import Holder, State, System, from_json, linux_system, state, this_process, this_system, to_json

BOX = System("box", machine="m1", boot="b1", space="pid:1")
ME = this_process()


def standing(there: System, here: System, *, shared: bool = False, alive: bool = False) -> State:
    """Of a holder on `there`, as judged from `here`; `alive`: a process of its number and birth runs here."""
    parent = psutil.Process(os.getppid())
    pid, born = (parent.pid, parent.create_time()) if alive else (4_000_000, 1.0)
    return state(Holder(pid, "now", "mlxbatch", born, there), here, shared=shared)


@pytest.mark.parametrize("shared", [False, True])
def test_on_the_same_system_the_process_decides(shared: bool) -> None:
    assert standing(BOX, BOX, shared=shared, alive=True) is State.ALIVE
    assert standing(BOX, BOX, shared=shared) is State.DEAD


@pytest.mark.parametrize("shared", [False, True])
def test_a_machine_that_was_restarted_has_no_processes_of_before(shared: bool) -> None:
    """Whatever has the number now."""
    assert standing(BOX, replace(BOX, boot="b2"), shared=shared, alive=True) is State.DEAD


@pytest.mark.parametrize("shared", [False, True])
def test_a_laptop_s_name_changes_with_the_network(shared: bool) -> None:
    home = System("Anna's-Mac.local", machine="m1", boot="b1")
    away = replace(home, host="mac-17.guest.example")
    assert standing(home, away, shared=shared, alive=True) is State.ALIVE
    assert standing(home, away, shared=shared) is State.DEAD
    assert standing(home, replace(away, boot="b2"), shared=shared, alive=True) is State.DEAD


@pytest.mark.parametrize("shared", [False, True])
def test_two_machines_of_one_name_are_two(shared: bool) -> None:
    other = System("box", machine="m2", boot="b2", space="pid:1")
    assert standing(BOX, other, shared=shared) is State.ELSEWHERE


@pytest.mark.parametrize("shared", [False, True])
def test_a_container_beside_ours_would_hold_its_lock(shared: bool) -> None:
    """One kernel has one table of locks, whatever the containers are called."""
    one, other = System("mlx", boot="b1", space="pid:7"), System("mlx", boot="b1", space="pid:8")
    assert standing(one, other, shared=shared, alive=True) is State.DEAD
    assert standing(one, replace(other, host="f3c1d2"), shared=shared) is State.DEAD


def test_containers_of_one_name_on_two_hosts_with_a_shared_volume() -> None:
    one, other = System("mlx", boot="b1", space="pid:7"), System("mlx", boot="b2", space="pid:7")
    assert standing(one, other, shared=True) is State.ELSEWHERE


def test_a_container_that_came_up_again_with_its_host() -> None:
    """On a disk of the host's own nobody else can be at work."""
    before, now = System("mlx", boot="b1", space="pid:7"), System("mlx", boot="b2", space="pid:9")
    assert standing(before, now, alive=True) is State.DEAD
    assert standing(before, replace(now, host="other")) is State.ELSEWHERE


@pytest.mark.parametrize("shared", [False, True])
def test_a_holder_of_an_earlier_version_is_known_by_its_name(shared: bool) -> None:
    assert standing(System("box"), BOX, shared=shared, alive=True) is State.ALIVE
    assert standing(System("box"), BOX, shared=shared) is State.DEAD
    assert standing(System("studio-2"), BOX, shared=shared) is State.ELSEWHERE


def test_without_a_boot_s_id_process_spaces_tell_containers_apart() -> None:
    one, other = System("mlx", space="pid:7"), System("mlx", space="pid:8")
    assert standing(one, other, shared=True) is State.ELSEWHERE
    assert standing(one, other, alive=True) is State.DEAD
    assert standing(one, one, shared=True, alive=True) is State.ALIVE


def test_what_this_process_left_is_dead() -> None:
    assert state(ME, this_system(), shared=True) is State.DEAD


# ---- the file


def test_a_holder_comes_back_as_it_was_written() -> None:
    assert from_json(json.loads(json.dumps(to_json(ME)))) == ME
    assert ME.pid == os.getpid()
    assert ME.born == psutil.Process().create_time()
    assert ME.system == this_system()


def test_the_file_of_an_earlier_version() -> None:
    old = {"pid": 3, "host": "box", "started": "2026-11-30T01:00:00+00:00", "command": "mlxbatch", "born": 1.5}
    assert from_json(old) == Holder(3, "2026-11-30T01:00:00+00:00", "mlxbatch", 1.5, System("box"))


def test_an_earlier_version_reads_ours() -> None:
    assert {"pid", "host", "started", "command", "born"} <= set(to_json(ME))


def test_a_name_with_control_characters_is_not_printed() -> None:
    found = from_json(to_json(replace(ME, system=System("box\x1b[31m", "m\n", "b", "s"))))
    assert str(found).isprintable()


# ---- the system


def linux(
    root: Path, *, machine: str = "3d12", boot: str = "b3f5", pid: str = "4026531836", uts: str = "4026531838"
) -> Path:
    (root / "etc").mkdir()
    (root / "etc" / "machine-id").write_text(f"{machine}\n")
    (root / "proc/sys/kernel/random").mkdir(parents=True)
    (root / "proc/sys/kernel/random/boot_id").write_text(f"{boot}\n")
    (root / "proc/self/ns").mkdir(parents=True)
    (root / "proc/self/ns/pid").symlink_to(f"pid:[{pid}]")
    (root / "proc/self/ns/uts").symlink_to(f"uts:[{uts}]")
    return root


def test_a_linux_machine(tmp_path: Path) -> None:
    assert linux_system("box", linux(tmp_path)) == System("box", "3d12 box", "b3f5", "pid:[4026531836]")


@pytest.mark.parametrize("namespaces", [{"pid": "4026532713"}, {"uts": "4026532711"}])
def test_a_container_has_no_machine_of_its_own(tmp_path: Path, namespaces: dict[str, str]) -> None:
    found = linux_system("mlx", linux(tmp_path, **namespaces))
    assert (found.machine, found.boot) == ("", "b3f5")


@pytest.mark.parametrize("mark", [".dockerenv", "run/.containerenv"])
def test_a_container_that_shares_its_host_s_processes(tmp_path: Path, mark: str) -> None:
    linux(tmp_path)
    (tmp_path / mark).parent.mkdir(exist_ok=True)
    (tmp_path / mark).touch()
    assert linux_system("mlx", tmp_path).machine == ""


def test_a_system_that_says_nothing(tmp_path: Path) -> None:
    assert linux_system("box", tmp_path) == System("box")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert linux_system("box", linux(empty, machine="")).machine == ""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_this_linux_system() -> None:
    found = this_system()
    assert found.host == socket.gethostname()
    assert found.boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert found.space == str(Path("/proc/self/ns/pid").readlink())


@pytest.mark.skipif(sys.platform != "darwin", reason="asks macOS")
def test_this_mac() -> None:
    found = this_system()
    assert len(found.machine) == 32
    assert len(found.boot) == 36
    assert found == this_system()
