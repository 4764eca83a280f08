"""What kind of machine this is, in the words of a profile: platform, chip, GPU, memory. Needs no MLX."""

from __future__ import annotations

import ctypes
import platform
import sys
from dataclasses import dataclass
from importlib import metadata
from typing import Literal

from mlxbatch import gpu
from mlxbatch.budget import machine_memory

Gpu = Literal["metal", "cuda", "none"]
# MLX's wheels that bring CUDA.
_CUDA_WHEELS = ("mlx-cuda-13", "mlx-cuda-12")


@dataclass(frozen=True, slots=True)
class Hardware:
    """One machine. `gpu` is what MLX, as it is installed, can use; `memory` is bytes of RAM, the control group's where
    that is less; `chip` and `gpu_cores` are known on Macs: "Apple M4 Pro", 20.
    """

    platform: str
    machine: str
    gpu: Gpu
    memory: int
    chip: str = ""
    gpu_cores: int | None = None

    @property
    def words(self) -> str:
        """In one line: "darwin on arm64, Apple M4 Pro, 20 GPU cores, 48 GiB"."""
        parts = [f"{self.platform} on {self.machine}"]
        parts += [self.chip] if self.chip else []
        parts += [f"{self.gpu_cores} GPU cores"] if self.gpu_cores else []
        parts += {"none": ["no GPU that MLX can use"], "cuda": ["CUDA"], "metal": []}[self.gpu]
        return ", ".join([*parts, f"{self.memory / 2**30:.0f} GiB"])


def this_hardware() -> Hardware:
    """The machine this runs on. On a Mac a process is started for it (ioreg, some tens of milliseconds)."""
    machine = platform.machine().lower()
    machine = {"aarch64": "arm64", "amd64": "x86_64"}.get(machine, machine)
    if sys.platform == "darwin" and machine == "arm64":
        return mac(_sysctl_text("machdep.cpu.brand_string"), gpu.ioreg(), machine_memory())
    return Hardware(sys.platform, machine, "cuda" if _cuda() else "none", machine_memory())


def mac(brand: str, accelerators: str, memory: int) -> Hardware:
    """A Mac with Apple Silicon by sysctl's machdep.cpu.brand_string, ioreg's accelerators and bytes of RAM."""
    chip = brand.strip() if brand.strip().startswith("Apple ") else ""
    return Hardware("darwin", "arm64", "metal", memory, chip, gpu.ioreg_cores(accelerators))


def is_chip(chip: str, wanted: str) -> bool:
    """Whether a chip is the one that is meant, or of its family: "Apple M4" means "Apple M4 Pro", too."""
    return chip == wanted or chip.startswith(f"{wanted} ")


def _cuda() -> bool:
    return sys.platform == "linux" and any(map(_installed, _CUDA_WHEELS)) and gpu.cuda_devices() > 0


def _installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _sysctl_text(name: str) -> str:
    """A text of sysctl(3) on macOS; "" where it cannot be had. Not run on a Mac so far."""
    found = ctypes.create_string_buffer(256)
    size = ctypes.c_size_t(len(found))
    try:
        refused = ctypes.CDLL(None).sysctlbyname(name.encode(), found, ctypes.byref(size), None, ctypes.c_size_t(0))
    except (AttributeError, OSError):
        return ""
    return "" if refused else found.value.decode("ascii", "replace")
