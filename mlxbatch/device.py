"""MLX's device: its limits, its readings, its errors. Import only after `blas.preload()`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import mlx.core as mx
import psutil

from mlxbatch import budget
from mlxbatch.errors import DeviceLost, OutOfMemory, SetupError
from mlxbatch.types import Readings, Span

_OUT_OF_MEMORY = re.compile(
    r"out of memory|insufficient memory|unable to allocate|attempting to allocate|resource limit|bad_alloc",
    re.IGNORECASE,
)
_DEVICE_LOST = re.compile(
    r"command buffer execution failed|device (was )?lost|no metal|gpu hang|gpu timeout|"
    r"illegal memory access|unspecified launch failure",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """What a run sets on the device, as a profile writes it: "12GB", or "75%" of `recommended_memory`.

    Shares are made into bytes here, because only the process that has MLX can ask a GPU for its size. MLX's default
    memory limit is 1.5 times the recommended working set, on many Macs more than all RAM: it is always set.
    """

    kind: Literal["cpu", "gpu"] = "cpu"
    memory_limit: str = "75%"
    cache_limit: str = "1GB"
    wired_limit: str = "none"
    blas: Literal["openblas", "bundled"] = "openblas"

    def memory_bytes(self) -> int:
        return budget.memory_limit(self.memory_limit, recommended_memory(self.kind))

    def cache_bytes(self) -> int:
        return budget.memory_limit(self.cache_limit, recommended_memory(self.kind))

    def wired_bytes(self, weights: int) -> int | None:
        """None where the system's own setting stays: for "none", and without Metal, which alone has this limit."""
        if not mx.metal.is_available():
            return None
        return budget.wired_limit(self.wired_limit, weights, recommended_memory(self.kind))


@dataclass(slots=True)
class Work:
    """What an engine counts of its work, for `readings`."""

    live: int = 0
    progress: int = 0
    shortages: int = 0


@contextmanager
def device_settings(settings: DeviceSettings) -> Iterator[None]:
    """Apply the settings; on the way out finish what runs, free the cache and put MLX's own values back.

    A wired limit of "auto" is without weights until there are some: `wire`.
    """
    device = _device(settings.kind)
    before_device = mx.default_device()
    mx.set_default_device(device)
    undo = [(setter, setter(value)) for setter, value in _limits(settings) if value is not None]
    try:
        yield
    finally:
        reclaim()
        for setter, value in undo:
            setter(value)
        mx.set_default_device(before_device)


def _device(kind: str) -> mx.Device:
    if kind == "cpu":
        return mx.Device(mx.cpu)
    if not (mx.metal.is_available() or mx.cuda.is_available()):
        raise SetupError("no GPU that MLX can use here: choose a profile with [device] kind = 'cpu', such as linux-cpu")
    return mx.Device(mx.gpu)


def recommended_memory(kind: str) -> int:
    """Bytes that shares are of: what a GPU advises to hold at most (all it has, where it advises nothing), else RAM."""
    if kind == "gpu":
        info = mx.device_info(mx.Device(mx.gpu))
        for key in ("max_recommended_working_set_size", "total_memory", "memory_size"):
            if key in info:
                return int(info[key])
    return budget.machine_memory()


def wire(settings: DeviceSettings, weights: int) -> None:
    """Set the wired limit for models of so many bytes, within `device_settings`, which puts back what was before."""
    limit = settings.wired_bytes(weights)
    if limit is not None:
        mx.set_wired_limit(limit)


def _limits(settings: DeviceSettings) -> list[tuple[Any, int | None]]:
    return [
        (mx.set_memory_limit, settings.memory_bytes()),
        (mx.set_cache_limit, settings.cache_bytes()),
        (mx.set_wired_limit, settings.wired_bytes(0)),
    ]


def readings(work: Work, spans: tuple[Span, ...] = ()) -> Readings:
    """Memory now, in bytes, and the peak since the last call. From any thread.

    MLX frees lazily: what was not evaluated yet is not in it.
    """
    peak = mx.get_peak_memory()
    mx.reset_peak_memory()
    return Readings(
        active=mx.get_active_memory(),
        cache=mx.get_cache_memory(),
        peak=peak,
        rss=psutil.Process().memory_info().rss,
        live=work.live,
        progress=work.progress,
        shortages=work.shortages,
        spans=spans,
    )


def reclaim() -> None:
    """Finish what runs, then give the buffers back that MLX keeps for reuse."""
    mx.synchronize()
    mx.clear_cache()


@contextmanager
def device_errors() -> Iterator[None]:
    """MLX raises RuntimeError (and std::bad_alloc as MemoryError) for all; name the two kinds that differ in cure."""
    try:
        yield
    except MemoryError as error:
        raise OutOfMemory(f"out of memory on the device: {error}") from error
    except RuntimeError as error:
        named = translated(error)
        if named is error:
            raise
        raise named from error


def translated(error: RuntimeError) -> Exception:
    """OutOfMemory, DeviceLost, or the error itself where its message is neither."""
    message = str(error)
    if _OUT_OF_MEMORY.search(message):
        return OutOfMemory(f"out of memory on the device: {message}")
    if _DEVICE_LOST.search(message):
        return DeviceLost(f"the device failed: {message}")
    return error
