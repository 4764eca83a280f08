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
    monkeypatch.setattr(mx.metal, "is_available", lambda: False)
    assert mx.set_wired_limit not in [setter for setter, _ in device._limits(settings, 10**9)]
    monkeypatch.setattr(mx.metal, "is_available", lambda: True)
    wired = dict(device._limits(settings, 10**9))[mx.set_wired_limit]
    assert wired == min(10**9 + budget.WIRED_HEADROOM, budget.machine_memory())


@pytest.mark.skipif(mx.metal.is_available() or mx.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_error_says_what_to_choose() -> None:
    with pytest.raises(SetupError, match="linux-cpu"), device_settings(DeviceSettings(kind="gpu")):
        pass


def test_the_host_says_what_may_be_held() -> None:
    host = make_host(EngineSpec("fake", extra={"memory_limit": 123}), "thread")
    host.start()
    assert host.load().memory_limit == 123
    host.close()


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("[malloc_or_wait] Unable to allocate 4096 bytes.", OutOfMemory),
        ("[METAL] Command buffer execution failed: Insufficient Memory", OutOfMemory),
        ("[metal::malloc] Attempting to allocate 9 bytes which is greater than", OutOfMemory),
        ("[METAL] Command buffer execution failed: Caused GPU Timeout Error", DeviceLost),
        ("[matmul] Last dimension of first input", RuntimeError),
    ],
)
def test_errors_of_mlx_have_names(message: str, kind: type[Exception]) -> None:
    assert type(device.translated(RuntimeError(message))) is kind
