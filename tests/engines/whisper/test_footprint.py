"""What is told of a Whisper's memory before it is loaded, against what the loaded engine says."""

from __future__ import annotations

import json
import shutil
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


def test_quantized_weights_take_what_their_files_do(tiny: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(tiny, tmp_path / "model"))
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"quantization": {"bits": 4, "group_size": 64}}))
    told = registry.footprint(EngineSpec("whisper", copy))
    assert told is not None
    assert told.weights == (copy / "model.safetensors").stat().st_size


def test_it_needs_no_mlx(tiny: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from mlxbatch.engines import registry; "
        "from mlxbatch.engines.base import EngineSpec; "
        "registry.footprint(EngineSpec('whisper', Path(sys.argv[1]))); assert 'mlx' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tiny)], check=True)


def test_an_engine_that_cannot_tell_has_none(tiny: Path) -> None:
    assert registry.footprint(replace(EngineSpec("whisper", tiny), engine="other")) is None
