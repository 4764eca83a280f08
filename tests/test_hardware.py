"""What kind of machine this is: from captured answers of macOS, and from this very machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mlxbatch import gpu, hardware
from mlxbatch.gpu import cuda_devices, ioreg_cores
from mlxbatch.hardware import Hardware, is_chip, mac, this_hardware

GIB = 2**30
# As `ioreg -r -d 1 -w 0 -c IOAccelerator` prints an accelerator, cut down to some of its properties.
ACCELERATOR = """\
+-o AGXAcceleratorG16X  <class AGXAcceleratorG16X, id 0x100000431, registered, matched, active, busy 0 (1 ms)>
    {
      "IOClass" = "AGXAcceleratorG16X"
      "GPUConfigurationVariable" = {"num_gps"=2,"gpu_gen"=16,"usc_gen"=3,"num_cores"=20,"num_frags"=20,"num_mgpus"=1}
      "model" = "Apple M4 Pro"
      "gpu-core-count" = 20
      "PerformanceStatistics" = {"In use system memory"=1245184,"Device Utilization %"=7,"Renderer Utilization %"=7}
      "vendor-id" = <6b100000>
    }
"""


@pytest.mark.parametrize(
    ("brand", "text", "chip", "cores"),
    [
        ("Apple M4 Pro\n", ACCELERATOR, "Apple M4 Pro", 20),
        ("Apple M1", ACCELERATOR.replace("20", "7"), "Apple M1", 7),
        ("Apple M3 Ultra", '"gpu-core-count" = 80', "Apple M3 Ultra", 80),
        ("Apple M5", "", "Apple M5", None),
        ("VirtualApple @ 2.50GHz processor", "", "", None),
        ("", "", "", None),
    ],
)
def test_a_mac_by_what_its_system_says(brand: str, text: str, chip: str, cores: int | None) -> None:
    assert mac(brand, text, 16 * GIB) == Hardware("darwin", "arm64", "metal", 16 * GIB, chip, cores)


def test_the_cores_and_the_load_are_in_one_answer() -> None:
    assert ioreg_cores(ACCELERATOR) == 20
    assert gpu.ioreg_share(ACCELERATOR) == 0.07
    assert ioreg_cores('"gpu-core-count" = none') is None


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (mac("Apple M4 Pro", ACCELERATOR, 48 * GIB), "darwin on arm64, Apple M4 Pro, 20 GPU cores, 48 GiB"),
        (mac("", "", 8 * GIB), "darwin on arm64, 8 GiB"),
        (Hardware("linux", "x86_64", "none", 16 * GIB), "linux on x86_64, no GPU that MLX can use, 16 GiB"),
        (Hardware("linux", "arm64", "cuda", 100 * GIB), "linux on arm64, CUDA, 100 GiB"),
    ],
)
def test_a_machine_in_words(found: Hardware, words: str) -> None:
    assert found.words == words


def test_a_family_and_its_chips() -> None:
    assert is_chip("Apple M1", "Apple M1")
    assert is_chip("Apple M1 Max", "Apple M1")
    assert not is_chip("Apple M10", "Apple M1")
    assert not is_chip("Apple M1", "Apple M1 Max")
    assert not is_chip("", "Apple M1")


def test_this_machine() -> None:
    here = this_hardware()
    assert here.platform == sys.platform
    assert here.memory > 2**28
    assert here.machine in ("x86_64", "arm64")
    if here.platform == "linux":
        assert here.gpu in ("cuda", "none")
        assert (here.chip, here.gpu_cores) == ("", None)
    if here.gpu == "metal":
        assert here.chip.startswith("Apple ")
        assert here.gpu_cores


class Nvml:
    """Two GPUs, as NVML tells of them."""

    def __init__(self, broken: bool = False) -> None:
        self._broken = broken

    def nvmlInit(self) -> None:  # noqa: N802 - the library's name
        if self._broken:
            raise RuntimeError("Driver Not Loaded")

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2


@pytest.mark.parametrize(
    ("visible", "count"), [(None, 2), ("0", 1), ("0,1", 2), ("", 0), ("-1", 0), ("1,-1,0", 1), ("GPU-8f3a", 1)]
)
def test_gpus_that_cuda_may_use(monkeypatch: pytest.MonkeyPatch, visible: str | None, count: int) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml())
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert cuda_devices() == count


def test_without_a_driver_or_its_library_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(broken=True))
    assert cuda_devices() == 0
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert cuda_devices() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="looks at Linux's side")
def test_cuda_is_both_the_build_of_mlx_and_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml())
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(hardware, "_installed", lambda package: False)
    assert this_hardware().gpu == "none"
    monkeypatch.setattr(hardware, "_installed", lambda package: package == "mlx-cuda-13")
    assert this_hardware().gpu == "cuda"
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(broken=True))
    assert this_hardware().gpu == "none"
