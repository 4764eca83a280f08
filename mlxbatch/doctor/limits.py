"""Limits that the system sets on a run: memory of the machine and the control group, ulimits, shared memory."""

from __future__ import annotations

import resource
import shutil
import sys
from collections.abc import Iterator
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

from mlxbatch import budget
from mlxbatch.doctor.finding import Case, Finding, settings_if_right
from mlxbatch.errors import show
from mlxbatch.words import size
from mlxbatch.worker import SLAB_SAMPLES

# Bytes of shared memory that a run takes, however long the recordings.
SLAB = SLAB_SAMPLES * 4
# What a run is left room for: one over Whisper base on two cores held 17 open files and 20 threads in a process and its
# child (counted), and BLAS starts a thread per core.
FEWEST_FILES = 64
FEWEST_PROCESSES = 64


def check(case: Case) -> Iterator[Finding]:
    yield from check_memory(case)
    yield from check_ulimits()
    if sys.platform == "linux":
        yield from check_shared_memory()


def check_memory(case: Case, proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> Iterator[Finding]:
    """The machine's memory, what is free of it, and what the control group leaves of it."""
    import psutil

    memory = psutil.virtual_memory()
    yield Finding("ok", "limits", f"memory: {size(memory.total)}, {size(memory.available)} of it available now")
    if sys.platform == "linux":
        limit = budget.cgroup_limit(proc, cgroups)
        if limit is not None and limit < memory.total:
            remedy = "raise it (docker run --memory, MemoryMax= of a systemd unit) if runs go short of memory"
            yield Finding("note", "limits", f"the control group allows {size(limit)} of memory", remedy)
        else:
            yield Finding("ok", "limits", "the control group sets no memory limit")
    loaded = settings_if_right(case)
    if loaded is None or loaded.profile.device.kind == "gpu":
        return
    wanted = budget.memory_limit(loaded.profile.device.memory_limit, budget.machine_memory(proc, cgroups))
    if memory.available < wanted:
        what = f"a run may take {size(wanted)}, more than is available now"
        yield Finding("note", "limits", what, "end other programs, or set a lower memory_limit under [device]")


def check_ulimits() -> Iterator[Finding]:
    yield _address_space(resource.getrlimit(resource.RLIMIT_AS)[0])
    yield _count("open files", "-n", resource.getrlimit(resource.RLIMIT_NOFILE)[0], FEWEST_FILES)
    yield _count("processes and threads", "-u", resource.getrlimit(resource.RLIMIT_NPROC)[0], FEWEST_PROCESSES)


def _address_space(limit: int) -> Finding:
    if limit == resource.RLIM_INFINITY:
        return Finding("ok", "limits", "address space: unlimited (ulimit -v)")
    what = f"address space: {size(limit)} (ulimit -v); MLX's CPU build crashes at such a limit, it does not raise"
    return Finding("warning", "limits", what, "ulimit -v unlimited, and memory_limit under [device] instead")


def _count(what: str, flag: str, limit: int, fewest: int) -> Finding:
    shown = "unlimited" if limit == resource.RLIM_INFINITY else str(limit)
    text = f"{what}: {shown} (ulimit {flag})"
    if limit == resource.RLIM_INFINITY or limit >= fewest:
        return Finding("ok", "limits", text)
    return Finding("warning", "limits", f"{text}, too few for a run", f"ulimit {flag} {4 * fewest}")


def check_shared_memory(folder: Path = Path("/dev/shm")) -> Iterator[Finding]:
    """Samples cross to the engine's process in it. A block beyond what is free can be made, and kills who fills it."""
    remedy = "mount -o remount,size=64m /dev/shm; in a container: docker run --shm-size=64m"
    try:
        block = SharedMemory(create=True, size=1)
        block.close()
        block.unlink()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        yield Finding("problem", "limits", f"no shared memory: {show(folder)}: {error.strerror or error}", remedy)
        return
    what = f"shared memory: {size(free)} free in {show(folder)}, a run takes {size(SLAB)}"
    yield Finding("ok", "limits", what) if free >= SLAB else Finding("problem", "limits", what, remedy)
