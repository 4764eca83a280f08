"""The device check, and what it says where MLX crashes, hangs, or is not there: in real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mlxbatch.doctor import device
from mlxbatch.doctor.device import NoAnswer, ask
from mlxbatch.doctor.finding import Case, Finding

ROOT = Path(__file__).resolve().parents[2]
ANSWER: dict[str, Any] = {
    "kind": "cpu",
    "name": "Some CPU",
    "architecture": "x86_64",
    "metal": False,
    "cuda": False,
    "memory_limit": 6 * 10**9,
    "cache_limit": 10**9,
    "wired_limit": None,
    "recommended_memory": 8 * 10**9,
    "multiplies": "OpenBLAS 0.3, 2 threads",
    "gflops": 100.0,
}


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "was ended by SIGSEGV"),
        ("import os; os.kill(os.getpid(), 40)", "was ended by signal 40"),
        ("import sys; sys.exit(7)", "ended with 7"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("print('no JSON')", "cannot be read"),
        ("pass", "cannot be read"),
    ],
    ids=["crash", "signal", "code", "import", "noise", "silence"],
)
def test_a_self_test_that_fails_says_how(code: str, words: str) -> None:
    with pytest.raises(NoAnswer, match=words):
        ask(python(code))


def test_a_self_test_that_hangs_is_ended() -> None:
    began = time.monotonic()
    with pytest.raises(NoAnswer, match=r"no answer in 0\.5 s"):
        ask(python("import time; time.sleep(60)"), patience=0.5)
    assert time.monotonic() - began < 20


def test_a_self_test_that_cannot_start(tmp_path: Path) -> None:
    with pytest.raises(NoAnswer, match="cannot be started: No such file"):
        ask([str(tmp_path / "python")])


def test_only_the_last_line_is_the_answer() -> None:
    assert ask(python("print('a notice'); print('{\"kind\": \"cpu\"}')")) == {"kind": "cpu"}


def test_this_machine() -> None:
    """Really asked: MLX works here, or no test of the engine could."""
    found = list(device.check(Case()))
    assert [one.level for one in found if one.level == "problem"] == []
    text = "\n".join(one.what for one in found)
    assert "MLX works on the CPU" in text
    assert "GFLOPS on " in text
    assert "memory limit " in text
    assert "(memory_limit = '75%'); cache limit 1.0 GB (cache_limit = '1GB'); wired limit not set" in text


def test_a_gpu_that_is_asked_for_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mlxbatch.toml").write_text('[device]\nkind = "gpu"\n')
    (found,) = device.check(Case(profile="apple-silicon"))
    assert found.level == "problem"
    assert "no GPU that MLX can use here" in found.what
    assert "--profile linux-cpu" in found.remedy


def test_a_broken_mlx(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mlx").mkdir()
    (tmp_path / "mlx" / "__init__.py").write_text("")
    (tmp_path / "mlx" / "core.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGABRT)\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    (found,) = device.check(Case())
    assert (found.level, found.what) == ("problem", "MLX does not work here: the self-test was ended by SIGABRT")
    assert "pip install --force-reinstall mlx" in found.remedy


def test_the_reference_blas_is_a_warning_with_the_way_out() -> None:
    slow = ANSWER | {"multiplies": "the reference BLAS inside MLX's wheel", "gflops": 4.1}
    missing = device._speed(slow, {"blas": "openblas"})
    assert (missing.level, "4.1 GFLOPS" in missing.what) == ("warning", True)
    assert "apt-get install libopenblas0-pthread" in missing.remedy
    chosen = device._speed(slow, {"blas": "bundled"})
    assert (chosen.level, chosen.remedy) == ("warning", 'set blas = "openblas" under [device]')
    assert device._speed(ANSWER, {"blas": "openblas"}).level == "ok"


@pytest.mark.parametrize(
    ("changes", "level"),
    [({}, "note"), ({"metal": True}, "warning"), ({"metal": True, "kind": "gpu"}, "ok")],
    ids=["no gpu", "gpu not used", "gpu used"],
)
def test_a_gpu_that_is_not_used_is_said(changes: dict[str, Any], level: str) -> None:
    found: list[Finding] = list(device._device(ANSWER | changes))
    assert found[-1].level == level


@pytest.mark.parametrize(
    ("changes", "wired", "told"),
    [
        ({}, "auto", "wired limit not set: only Metal has one (wired_limit = 'auto')"),
        ({"metal": True}, "none", "wired limit not set (wired_limit = 'none')"),
        ({"metal": True, "wired_limit": 5 * 10**9}, "5GB", "wired limit 5.0 GB (wired_limit = '5GB')"),
        (
            {"metal": True, "wired_limit": 4 * 10**9},
            "auto",
            "wired limit 4.0 GB and the model's weights (wired_limit = 'auto')",
        ),
    ],
)
def test_the_limits_in_force(changes: dict[str, Any], wired: str, told: str) -> None:
    given = {"memory_limit": "75%", "cache_limit": "1GB", "wired_limit": wired}
    assert device._memory(ANSWER | changes, given).what == (
        "memory limit 6.0 GB, of the 8.0 GB this process may have (memory_limit = '75%'); "
        f"cache limit 1.0 GB (cache_limit = '1GB'); {told}"
    )


def test_the_self_test_measures_what_it_says() -> None:
    settings = {"kind": "cpu", "memory_limit": "1GB", "cache_limit": "100MB", "blas": "bundled"}
    command = [sys.executable, "-m", "mlxbatch.selftest", json.dumps(settings)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    answer = json.loads(done.stdout)
    assert (answer["memory_limit"], answer["cache_limit"]) == (10**9, 10**8)
    assert answer["gflops"] > 0.1
    assert answer["multiplies"] in ("the reference BLAS inside MLX's wheel", "Accelerate")
    assert answer.keys() == ANSWER.keys()
