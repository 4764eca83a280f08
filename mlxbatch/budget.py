"""How much memory a run may use and how many rows fit in it: arithmetic on bytes, no device.

Units: "GB" and its like are powers of 1000, "GiB" and its like powers of 1024.
"""

from __future__ import annotations

import re
from pathlib import Path

from mlxbatch.errors import UsageError

# New work queues near 80 % of what is available, so a plan never counts on more than that.
PLANNING_SHARE = 0.8
# What is wired beyond the weights when `wired_limit = "auto"`: room for the activations of a batch.
WIRED_HEADROOM = 4 * 10**9

_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?b)\s*", re.IGNORECASE | re.ASCII)
_SHARE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*", re.ASCII)


def parse_bytes(text: str) -> int:
    """Bytes of a size such as "512MB", "1.5 GiB" or "100b"; UsageError for anything else, zero included."""
    match = _SIZE.fullmatch(text)
    size = int(float(match[1]) * _UNITS.get(match[2].lower(), 0)) if match else 0
    if size < 1:
        raise UsageError(f'not a size: {text!r} (write it as "512MB" or "1.5GiB")')
    return size


def parse_amount(text: str, total: int) -> int:
    """Bytes of a size ("12GB"), or of a share ("75%", over 0 and at most 100) of `total` bytes."""
    match = _SHARE.fullmatch(text)
    if match is None:
        return parse_bytes(text)
    if not 0 < float(match[1]) <= 100:
        raise UsageError(f"not a share of the memory: {text!r} (over 0% and at most 100%)")
    return int(total * float(match[1]) / 100)


def memory_limit(value: str, total: int) -> int:
    """Bytes the run may hold: the profile's value, and never more than `total`.

    `total` is `machine_memory()` where the device is the CPU, the recommended working set where it is a GPU.
    """
    return min(parse_amount(value, total), total)


def wired_limit(value: str, weights: int, recommended: int) -> int | None:
    """Bytes to keep resident for the GPU; None leaves the system's setting alone ("none").

    "auto" is the weights and 4 GB. Never over the recommended working set: MLX raises above it, and machines have
    frozen with everything wired.
    """
    if value == "none":
        return None
    wanted = weights + WIRED_HEADROOM if value == "auto" else parse_amount(value, recommended)
    return min(wanted, recommended)


def planning_budget(limit: int, fixed: int) -> int:
    """Bytes left for rows: 80 % of the limit less `fixed`, the weights and Engine.working; 0 when that is over it."""
    return max(0, int(PLANNING_SHARE * limit) - fixed)


def slots(limit: int, fixed: int, need_per_row: int, batch_size: int) -> int:
    """How many rows may be in a batch at once, from 1 to `batch_size`.

    One row is always tried, even where the budget says it will not fit: the estimate errs on the safe side.
    """
    if need_per_row <= 0:
        return max(1, batch_size)
    return max(1, min(batch_size, planning_budget(limit, fixed) // need_per_row))


def machine_memory(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes of memory this process can count on: the machine's, or its Linux control group's where that is less."""
    import psutil  # type: ignore[import-untyped,unused-ignore]

    total = int(psutil.virtual_memory().total)
    limit = cgroup_limit(proc, cgroups)
    return total if limit is None else min(total, limit)


def cgroup_limit(proc: Path, cgroups: Path) -> int | None:
    """The smallest memory limit of this process's control group and those above it, None where there is none.

    Reads `memory.max` (version 2) and `memory/.../memory.limit_in_bytes` (version 1, where "no limit" is a number near
    2^63 that the caller's minimum takes care of). A container or a systemd unit sets either.
    """
    limits = [whole_number(file_text(path)) for path in cgroup_limit_files(proc, cgroups)]
    return min((limit for limit in limits if limit is not None), default=None)


def cgroup_limit_files(proc: Path, cgroups: Path) -> list[Path]:
    """Where limits of this process's control group and those above it would stand; not all of them need exist."""
    files = [cgroups / "memory.max", cgroups / "memory" / "memory.limit_in_bytes"]
    for line in file_text(proc / "self" / "cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            files += [folder / "memory.max" for folder in _with_parents(cgroups, group)]
        elif "memory" in controllers.split(","):
            files += [folder / "memory.limit_in_bytes" for folder in _with_parents(cgroups / "memory", group)]
    return files


def _with_parents(root: Path, group: str) -> list[Path]:
    parts = [part for part in group.split("/") if part not in ("", "..")]
    return [root.joinpath(*parts[:n]) for n in range(len(parts), 0, -1)]


def whole_number(text: str) -> int | None:
    """The number that a file of the kernel's holds; None for "max", for nothing, and for anything else."""
    text = text.strip()
    return int(text) if text.isdecimal() else None


def file_text(path: Path) -> str:
    """What a file of the kernel's says, "" where it is not there or may not be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
