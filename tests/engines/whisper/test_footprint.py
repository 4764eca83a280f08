"""What is told of a Whisper's memory before it is loaded, against what the loaded engine says."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mlxbatch import kernels
from mlxbatch.engines import registry
from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.whisper import footprint


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_it_is_what_the_engine_says(tiny: Path, dtype: str) -> None:
    spec = EngineSpec("whisper", tiny, dtype=dtype)
    told, engine = registry.footprint(spec), registry.build(spec)
    assert told is not None
    try:
        assert told.weights == engine.weights()
        assert [told.need(seconds) for seconds in (0.0, 3.7, 3600.0)] == [engine.need(s) for s in (0.0, 3.7, 3600.0)]
    finally:
        engine.close()


@pytest.mark.real
def test_of_real_weights_too(whisper_base: Path) -> None:
    spec = EngineSpec("whisper", whisper_base)
    told, engine = registry.footprint(spec), registry.build(spec)
    assert told is not None
    try:
        assert (told.weights, told.need(30.0)) == (engine.weights(), engine.need(30.0))
    finally:
        engine.close()


def test_a_gpu_keeps_no_scores(tiny: Path) -> None:
    on_cpu = registry.footprint(EngineSpec("whisper", tiny))
    on_gpu = registry.footprint(EngineSpec("whisper", tiny, device={"kind": "gpu"}))
    assert on_cpu is not None
    assert on_gpu is not None
    assert on_cpu.need(10.0) - on_gpu.need(10.0) == 3 * footprint.TILE * 4
    assert footprint.TILE == kernels.TILE


def test_on_a_cpu_quantized_weights_are_plain_and_on_a_gpu_they_stay(tiny: Path) -> None:
    def told(kind: str, bits: int | None) -> int:
        found = registry.footprint(EngineSpec("whisper", tiny, dtype="float16", bits=bits, device={"kind": kind}))
        assert found is not None
        return found.weights

    assert told("cpu", 4) == told("cpu", None) == told("gpu", None)
    assert told("gpu", 4) < 0.5 * told("gpu", None)


def test_it_needs_no_mlx(tiny: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from mlxbatch.engines import registry; "
        "from mlxbatch.engines.base import EngineSpec; "
        "registry.footprint(EngineSpec('whisper', Path(sys.argv[1]))); assert 'mlx' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tiny)], check=True)


def test_an_engine_that_cannot_tell_has_none(tiny: Path) -> None:
    assert registry.footprint(replace(EngineSpec("whisper", tiny), engine="other")) is None
