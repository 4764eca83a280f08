"""The GPU as the system tells it, how busy and how large: `ioreg` on macOS, NVML with CUDA. Needs no MLX."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Literal

GpuReader = Callable[[], float | None]

# Not on the PATH of cron, which is /usr/bin:/bin.
_IOREG = ("/usr/sbin/ioreg", "-r", "-d", "1", "-w", "0", "-c", "IOAccelerator")
# It answers within some tens of milliseconds; a run does not wait for it longer than this, in seconds.
_PATIENCE = 2.0
_UTILISATION = re.compile(r'"Device Utilization %"\s*=\s*(\d+)')
_CORES = re.compile(r'"gpu-core-count"\s*=\s*(\d+)')


def gpu_reader(kind: Literal["cpu", "gpu"]) -> GpuReader:
    """What tells the share of the GPU in use, by whatever program, 0 to 1; None where nothing can tell."""
    if kind == "cpu":
        return lambda: None
    return read_ioreg if sys.platform == "darwin" else _nvml_reader()


def read_ioreg() -> float | None:
    """The share that macOS's accelerator driver reports. Starts a process: not more than once in some seconds."""
    return ioreg_share(ioreg())


def ioreg() -> str:
    """What macOS's registry says of the accelerators; "" where it says nothing."""
    try:
        ran = subprocess.run(
            _IOREG, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout


def ioreg_share(text: str) -> float | None:
    """The share in the PerformanceStatistics of ioreg's accelerators; of several the busiest."""
    shares = [int(percent) / 100 for percent in _UTILISATION.findall(text)]
    return max((share for share in shares if share <= 1), default=None)


def ioreg_cores(text: str) -> int | None:
    """How many cores the GPU has, by the accelerator's "gpu-core-count"; None where it is not told."""
    return max((int(count) for count in _CORES.findall(text)), default=None)


def cuda_devices() -> int:
    """How many GPUs CUDA may use, by NVML and CUDA_VISIBLE_DEVICES; 0 without a driver."""
    try:
        import pynvml

        pynvml.nvmlInit()
        count = int(pynvml.nvmlDeviceGetCount())
    except Exception:  # NVML's own errors have no class without the package; any of them is no GPU
        return 0
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return count if visible is None else min(count, len(_visible(visible)))


def _visible(devices: str) -> list[str]:
    """CUDA ends the list at the first that it does not know, such as -1."""
    found = []
    for device in devices.split(","):
        if not device.strip() or device.strip().startswith("-"):
            break
        found.append(device)
    return found


def _nvml_reader() -> GpuReader:
    try:
        import pynvml
    except ImportError:
        return lambda: None
    try:
        pynvml.nvmlInit()
        device = nvml_device(pynvml, os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    except pynvml.NVMLError:  # no driver, or no such device
        return lambda: None

    def read() -> float | None:
        try:
            return float(pynvml.nvmlDeviceGetUtilizationRates(device).gpu) / 100
        except pynvml.NVMLError:
            return None

    return read


def nvml_device(nvml: Any, visible: str) -> Any:
    """NVML's handle of the device that CUDA calls its first: NVML itself heeds no CUDA_VISIBLE_DEVICES."""
    first = visible.split(",")[0].strip()
    if first and not first.isdecimal():
        return nvml.nvmlDeviceGetHandleByUUID(first)
    return nvml.nvmlDeviceGetHandleByIndex(int(first or 0))
