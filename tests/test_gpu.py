"""How busy the GPU is: parsers on the documented forms, and what is said where nothing can be told."""

from __future__ import annotations

import sys
import time
import types
from pathlib import Path

import pytest

from mlxbatch import gpu
from mlxbatch.gpu import gpu_reader, ioreg_share, nvml_device, read_ioreg

# Written by hand after what `ioreg -r -d 1 -w 0 -c IOAccelerator` is known to print: NOT captured on a Mac.
ONE = """+-o AGXAcceleratorG13X  <class AGXAcceleratorG13X, id 0x1000004d7, registered, matched, active, busy 0 (0 ms), retain 94>
    {
      "IOClass" = "AGXAcceleratorG13X"
      "IOReportLegend" = ({"IOReportChannels"=((1,2,"Device Utilization %"),(3,4,"In use system memory"))})
      "PerformanceStatistics" = {"In use system memory (driver)"=0,"Alloc system memory"=3464527872,"Tiler Utilization %"=4,"recoveryCount"=0,"Renderer Utilization %"=61,"Device Utilization %"=63,"In use system memory"=468942848}
      "model" = "Apple M1 Pro"
    }

"""  # noqa: E501


@pytest.mark.parametrize(
    ("text", "share"),
    [
        (ONE, 0.63),
        (ONE + ONE.replace('"Device Utilization %"=63', '"Device Utilization %"=71'), 0.71),
        (ONE.replace('"Device Utilization %"=63', '"Device Utilization %"=0'), 0.0),
        (ONE.replace('"Device Utilization %"=63', '"Device Utilization %"=100'), 1.0),
        # No share, or one that cannot be.
        (ONE.replace('"Device Utilization %"=63,', ""), None),
        (ONE.replace('"Device Utilization %"=63', '"Device Utilization %"=18446744073709551615'), None),
        ("", None),
    ],
)
def test_the_share_in_ioreg_s_text(text: str, share: float | None) -> None:
    assert ioreg_share(text) == share


def stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """A program of ours in ioreg's place: a real process."""
    program = folder / "ioreg"
    program.write_text(f"#!{sys.executable}\n{script}")
    program.chmod(0o755)
    monkeypatch.setattr(gpu, "_IOREG", (str(program), *gpu._IOREG[1:]))


def test_ioreg_is_run_and_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, tmp_path, f"import sys; print({ONE!r} if 'IOAccelerator' in sys.argv else '')")
    assert read_ioreg() == 0.63


def test_an_ioreg_that_hangs_or_is_missing_costs_a_figure_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, tmp_path, "import time; time.sleep(30)")
    monkeypatch.setattr(gpu, "_PATIENCE", 0.3)
    began = time.monotonic()
    assert read_ioreg() is None
    assert time.monotonic() - began < 5
    monkeypatch.setattr(gpu, "_IOREG", (str(tmp_path / "none"),))
    assert read_ioreg() is None


@pytest.mark.skipif(sys.platform != "darwin", reason="asks macOS")
def test_macos_answers() -> None:
    share = gpu_reader("gpu")()
    assert share is not None
    assert 0 <= share <= 1


class Nvml(types.ModuleType):
    """As much of pynvml as is used, with a device of a known share."""

    class NVMLError(Exception):
        pass

    def __init__(self, percent: int | None) -> None:
        super().__init__("pynvml")
        self.percent = percent

    def nvmlInit(self) -> None:  # noqa: N802
        if self.percent is None:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return f"index {index}"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        return f"uuid {uuid}"

    def nvmlDeviceGetUtilizationRates(self, device: str) -> types.SimpleNamespace:  # noqa: N802
        if self.percent == -1:
            raise self.NVMLError("GPU is lost")
        return types.SimpleNamespace(gpu=self.percent, memory=1)


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has ioreg")
@pytest.mark.parametrize(("percent", "share"), [(37, 0.37), (-1, None), (None, None)])
def test_nvml_s_share(monkeypatch: pytest.MonkeyPatch, percent: int | None, share: float | None) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(percent))
    assert gpu_reader("gpu")() == share


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has ioreg")
def test_without_nvml_the_share_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)  # import raises
    assert gpu_reader("gpu")() is None


@pytest.mark.parametrize(
    ("visible", "device"),
    [("", "index 0"), ("2,0", "index 2"), (" 1", "index 1"), ("GPU-8932f937,1", "uuid GPU-8932f937")],
)
def test_cuda_s_first_device_is_asked(visible: str, device: str) -> None:
    assert nvml_device(Nvml(0), visible) == device


def test_a_run_on_the_cpu_asks_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(90))
    assert gpu_reader("cpu")() is None
