"""Who holds a lock: which process, of which system, since when; and whether it can still be alive.

A host name says little. Containers share one, or get a new one at every start; a laptop's changes with the network. So
a holder also tells its machine, its boot and its process space, as far as the system knows them, and a holder written
before there were such fields is judged by its name.
"""

from __future__ import annotations

import os
import shlex
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

from mlxbatch.errors import show

# The numbers of Linux's first namespaces are constants of the kernel (PROC_PID_INIT_INO, PROC_UTS_INIT_INO): a process
# in others is in a container.
_FIRST = {"pid": "pid:[4026531836]", "uts": "uts:[4026531838]"}
_CONTAINER_FILES = (".dockerenv", "run/.containerenv")


@dataclass(frozen=True, slots=True)
class System:
    """Where a process runs; "" is not known.

    `machine` stays the same over restarts, `boot` is the running kernel's, `space` is where process ids are counted.
    """

    host: str
    machine: str = ""
    boot: str = ""
    space: str = ""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock. `born` is the process's start in seconds since 1970: a process id alone is used again."""

    pid: int
    started: str
    command: str
    born: float
    system: System

    def __str__(self) -> str:
        return f"process {self.pid} on {show(self.system.host)} since {self.started} ({self.command})"


class State(Enum):
    ALIVE = "alive"
    DEAD = "dead"
    ELSEWHERE = "elsewhere"  # on another host, or on one that cannot be told from another


def state(holder: Holder, here: System, *, shared: bool) -> State:
    """What has become of a holder whose operating system lock is free; `shared`: other hosts may reach the disk.

    A holder of this kernel is asked for by its process, one of this machine before its last restart has ended.
    """
    there = holder.system
    restarted = _differ(there.boot, here.boot)
    if restarted or not there.boot or not here.boot:
        if not _same_machine(there, here, shared=shared):
            return State.ELSEWHERE
        if restarted:
            return State.DEAD
    # One kernel. Another container's processes cannot be seen from here, but its lock can: it is free, so they ended.
    return State.DEAD if _differ(there.space, here.space) else _look_up(holder)


def _same_machine(there: System, here: System, *, shared: bool) -> bool:
    """By the machines' ids, else by name: so a container on a disk of its own is known again after a restart.

    A shared disk may be reached by another host's container of that name.
    """
    if there.machine and here.machine:
        return there.machine == here.machine
    told_apart = _differ(there.boot, here.boot) or _differ(there.space, here.space)
    return there.host == here.host and not (shared and told_apart)


def _differ(one: str, other: str) -> bool:
    """Whether both are known, and not the same."""
    return bool(one and other and one != other)


def _look_up(holder: Holder) -> State:
    """Whether the very process lives, not a later one with its number; this process's own leavings are dead."""
    import psutil  # type: ignore[import-untyped,unused-ignore]

    if holder.pid == os.getpid():
        return State.DEAD
    try:
        process = psutil.Process(holder.pid)
        # A zombie has ended; in a container without an init nobody may ever collect it.
        alive = process.status() != psutil.STATUS_ZOMBIE and abs(process.create_time() - holder.born) < 2.0
    except psutil.Error:
        return State.DEAD
    return State.ALIVE if alive else State.DEAD


def this_process() -> Holder:
    import psutil

    now = datetime.now(UTC).astimezone().isoformat(timespec="seconds")
    command = show(shlex.join(sys.argv))[:200]
    return Holder(os.getpid(), now, command, psutil.Process().create_time(), this_system())


def to_json(holder: Holder) -> dict[str, Any]:
    """What json.dumps takes; earlier versions read it, too."""
    there = holder.system
    return {
        "pid": holder.pid,
        "host": there.host,
        "started": holder.started,
        "command": holder.command,
        "born": holder.born,
        "machine": there.machine,
        "boot": there.boot,
        "space": there.space,
    }


def from_json(found: Mapping[str, Any]) -> Holder:
    """Raises KeyError, TypeError or ValueError for what `to_json`, of this version or an earlier one, did not write."""
    where = System(str(found["host"]), *(str(found.get(name, "")) for name in ("machine", "boot", "space")))
    started, command = show(str(found["started"])), show(str(found["command"]))
    return Holder(int(found["pid"]), started, command, float(found["born"]), where)


def this_system() -> System:
    """The system this process runs on, as far as it can be told."""
    name = socket.gethostname()
    if sys.platform == "darwin":
        return System(name, _mac_machine(), _mac_boot())
    return linux_system(name, Path("/"))


def linux_system(name: str, root: Path) -> System:
    """From machine-id(5), /proc/sys/kernel/random/boot_id (random(4)) and the process's namespaces (namespaces(7)).

    A container's machine-id is its image's, the same for all of them, and so tells nothing. Outside one it is taken
    together with the name, for clones of one virtual machine share it as well.
    """
    boot = _text(root / "proc/sys/kernel/random/boot_id")
    spaces = {kind: _link(root / "proc/self/ns" / kind) for kind in _FIRST}
    contained = spaces != _FIRST or any((root / mark).exists() for mark in _CONTAINER_FILES)
    machine = _text(root / "etc/machine-id")
    return System(name, f"{machine} {name}" if machine and not contained else "", boot, spaces["pid"])


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _link(path: Path) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 - a namespace's name is no path
    except OSError:
        return ""


def _mac_machine() -> str:
    """The hardware's UUID, by gethostuuid(2); not run on a Mac so far."""
    import ctypes

    class Timespec(ctypes.Structure):
        _fields_ = (("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long))

    found = (ctypes.c_ubyte * 16)()
    try:
        failed = ctypes.CDLL(None).gethostuuid(found, ctypes.byref(Timespec(1, 0)))
    except (AttributeError, OSError):
        return ""
    return "" if failed else bytes(found).hex()


def _mac_boot() -> str:
    """The UUID that the kernel gives each boot, by sysctlbyname(3); not run on a Mac so far."""
    import ctypes

    found = ctypes.create_string_buffer(64)
    size = ctypes.c_size_t(len(found))
    try:
        failed = ctypes.CDLL(None).sysctlbyname(b"kern.bootsessionuuid", found, ctypes.byref(size), None, 0)
    except (AttributeError, OSError):
        return ""
    return "" if failed else found.value.decode("ascii", "replace")
