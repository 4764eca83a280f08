"""What the machine has left, and how much of it a run uses: memory, its pressure, load, processors. Needs no MLX."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mlxbatch import budget
from mlxbatch.budget import file_text, whole_number
from mlxbatch.gpu import gpu_reader
from mlxbatch.pacing import load_average

if TYPE_CHECKING:
    import psutil  # type: ignore[import-untyped,unused-ignore]

Pressure = Literal["normal", "warn", "critical"]

# Seconds for which a reading of the GPU holds: on macOS each starts a process.
GPU_EVERY = 5.0

# Linux's pressure stall information, in percent of the last ten seconds (avg10): above this much of the time in which
# *some* task waited for memory the machine is short of it, and where *all* tasks waited ("full") it thrashes. The
# kernel documents the figures (Documentation/accounting/psi.rst) and leaves the thresholds to the reader.
STALLED = 10.0

_SOME = re.compile(r"^some avg10=(\d+(?:\.\d+)?)", re.MULTILINE)
_FULL = re.compile(r"^full avg10=(\d+(?:\.\d+)?)", re.MULTILINE)
# What the kernel counts as available beyond free memory (si_mem_available): file pages, which it drops when short.
# Files in memory (tmpfs) are not among them. Version 1 has the sums with the groups below as total_*.
_FILE_CACHE = {"memory.max": ("inactive_file", "active_file")}
_FILE_CACHE |= {"memory.limit_in_bytes": ("total_inactive_file", "total_active_file")}
_USAGE = {"memory.max": "memory.current", "memory.limit_in_bytes": "memory.usage_in_bytes"}


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine at one moment: bytes, and the 1-minute load average (None where there is none).

    `available` and `total` are the control group's where it gives less than the machine has.
    """

    available: int
    total: int
    pressure: Pressure
    load: float | None


def read_machine(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> Machine:
    """Look at the machine; cheap enough for every few seconds (no process is started)."""
    import psutil

    available = int(psutil.virtual_memory().available)
    room = cgroup_room(proc, cgroups)
    load = None
    with suppress(OSError):
        load = load_average()
    return Machine(
        available=available if room is None else min(available, room),
        total=budget.machine_memory(proc, cgroups),
        pressure=memory_pressure(proc, cgroups),
        load=load,
    )


def cgroup_room(proc: Path, cgroups: Path) -> int | None:
    """Bytes that this process's control group, and those above it, still give: the least of them; None without a limit.

    A group gives its limit less its usage, and file pages count as free: the kernel drops them before it kills.
    """
    rooms = [_room(path) for path in budget.cgroup_limit_files(proc, cgroups)]
    return min((room for room in rooms if room is not None), default=None)


def _room(limit_file: Path) -> int | None:
    limit = whole_number(file_text(limit_file))
    usage = whole_number(file_text(limit_file.with_name(_USAGE[limit_file.name])))
    if limit is None or usage is None:
        return None
    stat = dict(
        line.split(" ", 1) for line in file_text(limit_file.with_name("memory.stat")).splitlines() if " " in line
    )
    cache = sum(whole_number(stat.get(name, "")) or 0 for name in _FILE_CACHE[limit_file.name])
    return max(0, limit - usage + cache)


def memory_pressure(proc: Path, cgroups: Path) -> Pressure:
    """How short of memory the machine is, in the system's own judgement; "normal" where it gives none.

    macOS: the level that Activity Monitor shows as green, yellow and red. Linux: stall times of the machine and of this
    process's control group (version 2), whichever is worse.
    """
    if sys.platform == "darwin":
        return darwin_pressure(_sysctl("kern.memorystatus_vm_pressure_level"))
    files = [proc / "pressure" / "memory", *(group / "memory.pressure" for group in _groups(proc, cgroups))]
    levels: tuple[Pressure, ...] = ("normal", "warn", "critical")
    return max((psi_pressure(file_text(path)) for path in files), key=levels.index)


def _groups(proc: Path, cgroups: Path) -> set[Path]:
    """The folder of this process's own group (version 2), and the top, which in a container is the container's.

    Those in between stall for programs that are none of ours.
    """
    folders = [path.parent for path in budget.cgroup_limit_files(proc, cgroups) if path.name == "memory.max"]
    return {cgroups, max(folders, key=lambda folder: len(folder.parts))}


def psi_pressure(text: str) -> Pressure:
    """The level of one pressure file: `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`, and a like line for `full`."""
    some, full = (float(match[1]) if (match := line.search(text)) else 0.0 for line in (_SOME, _FULL))
    if full >= STALLED:
        return "critical"
    return "warn" if some >= STALLED else "normal"


def darwin_pressure(level: int | None) -> Pressure:
    """The level of kern.memorystatus_vm_pressure_level, dispatch/source.h: 1 normal, 2 warn, 4 critical."""
    levels: dict[int | None, Pressure] = {2: "warn", 4: "critical"}
    return levels.get(level, "normal")


def _sysctl(name: str) -> int | None:
    """A 32-bit value of sysctl(3) on macOS; None where it cannot be had."""
    value = ctypes.c_int32()
    size = ctypes.c_size_t(ctypes.sizeof(value))
    system = ctypes.CDLL("/usr/lib/libSystem.B.dylib")
    refused = system.sysctlbyname(name.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0))
    return None if refused else value.value


class Sampler:
    """How much of the machine a run uses, between one call and the next. Times are of `time.monotonic`, in seconds.

    Made and called on one thread. `kind` is the device's: a run on the CPU does not ask a GPU it leaves alone.
    """

    def __init__(self, now: float, *, kind: Literal["cpu", "gpu"]) -> None:
        import psutil

        self._last = now
        self._process = psutil.Process()
        self._read_gpu = gpu_reader(kind)
        self._gpu: float | None = None
        self._gpu_read = float("-inf")
        self._spent = self._cpu_seconds()
        psutil.cpu_percent()  # measures from here on

    def sample(self, now: float, machine: Machine) -> dict[str, float | int | None]:
        """The part of a `sample` event that does not come from the engine.

        Bytes, and shares from 0 to 1: `cpu` of all cores by this process and those below it, `machine_cpu` by all,
        `gpu` by all, at most GPU_EVERY old (None where unknown).
        """
        import psutil

        used, elapsed = self._cpu_seconds(), now - self._last
        cores = psutil.cpu_count() or 1
        cpu = (used - self._spent) / (elapsed * cores) if elapsed > 0 else None
        self._spent, self._last = used, now
        return {
            "cpu": None if cpu is None else round(min(max(cpu, 0.0), 1.0), 4),
            "machine_cpu": round(psutil.cpu_percent() / 100, 4),
            "gpu": self._gpu_share(now),
            "load": machine.load,
            "available": machine.available,
            "parent_rss": int(self._process.memory_info().rss),
        }

    def _gpu_share(self, now: float) -> float | None:
        if now - self._gpu_read >= GPU_EVERY:
            self._gpu, self._gpu_read = self._read_gpu(), now
        return self._gpu

    def _cpu_seconds(self) -> float:
        """Processor time of this process, of its children that ended, and of those that live.

        What a child took moves from the third sum to the second when it ends, so nothing is lost with it.
        """
        own = os.times()
        ended = own.children_user + own.children_system
        return own.user + own.system + ended + sum(map(_spent, self._process.children(recursive=True)))


def rss(pid: int) -> int | None:
    """Resident bytes of a process; None where it is gone."""
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None


def peak_rss() -> int:
    """The most bytes that were resident of this process at a time, since it began."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _spent(process: psutil.Process) -> float:
    import psutil

    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    # Of its own ended children, too: that is 0 on macOS, where psutil does not know it.
    return float(times.user + times.system + times.children_user + times.children_system)
