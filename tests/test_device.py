"""What a profile says of the device, made into bytes where MLX is, and taken back afterwards."""

from __future__ import annotations

import pytest

from mlxbatch import blas

blas.preload()  # whatever test comes first in this process decides which BLAS the others get

import mlx.core as mx  # noqa: E402

from mlxbatch import budget, device  # noqa: E402
from mlxbatch.device import DeviceSettings, device_settings, recommended_memory  # noqa: E402
from mlxbatch.engines.base import EngineSpec  # noqa: E402
from mlxbatch.errors import DeviceLost, OutOfMemory, SetupError  # noqa: E402
from mlxbatch.host import make_host  # noqa: E402
from mlxbatch.types import Span  # noqa: E402


def test_on_a_cpu_shares_are_of_the_machine_s_memory() -> None:
    total = budget.machine_memory()
    assert recommended_memory("cpu") == total
    assert DeviceSettings(memory_limit="50%").memory_bytes() == total // 2
    assert DeviceSettings(memory_limit="1GB").memory_bytes() == 10**9
    assert DeviceSettings(memory_limit="9000GB").memory_bytes() == total


@pytest.mark.parametrize(
    ("info", "total"),
    [
        ({"max_recommended_working_set_size": 10_700_000_000, "memory_size": 16_000_000_000}, 10_700_000_000),
        ({"total_memory": 150_000_000_000}, 150_000_000_000),
    ],
    ids=["metal", "cuda"],
)
def test_on_a_gpu_they_are_of_what_it_advises(
    monkeypatch: pytest.MonkeyPatch, info: dict[str, int], total: int
) -> None:
    monkeypatch.setattr(mx, "device_info", lambda device: info)
    settings = DeviceSettings(kind="gpu", memory_limit="90%")
    assert settings.memory_bytes() == int(total * 0.9)


def test_limits_are_set_and_put_back() -> None:
    before = (mx.set_memory_limit(7 * 10**9), mx.set_cache_limit(6 * 10**8))
    with device_settings(DeviceSettings(memory_limit="1GB", cache_limit="100MB")):
        assert mx.set_memory_limit(10**9) == 10**9
        assert mx.set_cache_limit(10**8) == 10**8
    assert (mx.set_memory_limit(before[0]), mx.set_cache_limit(before[1])) == (7 * 10**9, 6 * 10**8)


def test_wired_memory_is_set_on_metal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = DeviceSettings(wired_limit="auto")
    wired: list[int] = []
    monkeypatch.setattr(mx, "set_wired_limit", wired.append)
    monkeypatch.setattr(mx.metal, "is_available", lambda: False)
    assert dict(device._limits(settings))[mx.set_wired_limit] is None
    device.wire(settings, 10**9)
    assert wired == []
    monkeypatch.setattr(mx.metal, "is_available", lambda: True)
    assert dict(device._limits(settings))[mx.set_wired_limit] == min(budget.WIRED_HEADROOM, budget.machine_memory())
    device.wire(settings, 10**9)
    assert wired == [min(10**9 + budget.WIRED_HEADROOM, budget.machine_memory())]
    assert DeviceSettings(wired_limit="none").wired_bytes(10**9) is None


@pytest.mark.skipif(mx.metal.is_available() or mx.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_error_says_what_to_choose() -> None:
    with pytest.raises(SetupError, match="linux-cpu"), device_settings(DeviceSettings(kind="gpu")):
        pass


def test_the_host_says_what_may_be_held() -> None:
    host = make_host(EngineSpec("fake", extra={"memory_limit": 123}), "thread")
    host.start()
    assert host.load().memory_limit == 123
    host.close()


def test_limits_are_put_back_after_an_error() -> None:
    before = mx.set_memory_limit(7 * 10**9)
    with pytest.raises(ZeroDivisionError), device_settings(DeviceSettings(memory_limit="1GB")):
        _ = 1 / 0
    assert mx.set_memory_limit(before) == 7 * 10**9


def test_the_cache_is_emptied_on_the_way_out() -> None:
    with device_settings(DeviceSettings()):
        mx.eval(mx.ones((1024, 1024)) + 1)
    assert device.readings(device.Work()).cache == 0


def test_readings_see_what_is_allocated() -> None:
    before = device.readings(device.Work())
    held = mx.zeros((1024, 1024))
    mx.eval(held)
    now = device.readings(device.Work(live=2), (Span("encode", 1.0, 2.0, 3),))
    assert now.active >= before.active + held.nbytes
    assert now.peak >= now.active
    assert now.rss > 10**6
    assert now.spans == (Span("encode", 1.0, 2.0, 3),)
    assert (before.spans, now.live) == ((), 2)


METAL = "[METAL] Command buffer execution failed: "


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("[malloc_or_wait] Unable to allocate 4096 bytes.", OutOfMemory),
        ("[malloc] Unable to allocate 4096 bytes.", OutOfMemory),
        (f"{METAL}Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)", OutOfMemory),
        (
            "[metal::malloc] Attempting to allocate 9 bytes which is greater than the maximum allowed buffer size of "
            "8 bytes.",
            OutOfMemory,
        ),
        ("[metal::malloc] Resource limit (499000) exceeded.", OutOfMemory),
        ("cudaMallocAsync(&data, size, stream) failed: out of memory", OutOfMemory),
        ("cudaMallocManaged(&data, size) failed: out of memory", OutOfMemory),
        ("std::bad_alloc", OutOfMemory),
        (f"{METAL}Caused GPU Timeout Error (00000002:kIOGPUCommandBufferCallbackErrorTimeout)", DeviceLost),
        (f"{METAL}Caused GPU Hang Error (00000003:kIOGPUCommandBufferCallbackErrorHang)", DeviceLost),
        (f"{METAL}Discarded (victim of GPU error/recovery)", DeviceLost),
        ("cudaStreamSynchronize(stream_) failed: unspecified launch failure", DeviceLost),
        ("cudaMallocAsync(&data, size, stream) failed: an illegal memory access was encountered", DeviceLost),
        ("[matmul] Last dimension of first input", RuntimeError),
        ("There is no Stream(cpu, 1) in current thread.", RuntimeError),
        ("[metal::Device] Unable to load kernel steel_gemm", RuntimeError),
    ],
)
def test_errors_of_mlx_have_names(message: str, kind: type[Exception]) -> None:
    error = RuntimeError(message)
    found = device.translated(error)
    assert type(found) is kind
    assert message in str(found)
    with pytest.raises(kind) as caught, device.device_errors():
        raise error
    # The original stays to be seen; one that is passed on is not its own cause.
    assert caught.value.__cause__ is (None if kind is RuntimeError else error)


def test_memory_errors_and_others() -> None:
    with pytest.raises(OutOfMemory, match="bad_alloc"), device.device_errors():
        raise MemoryError("std::bad_alloc")
    with pytest.raises(KeyError), device.device_errors():
        raise KeyError("untouched")
