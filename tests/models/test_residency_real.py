"""Two real models in one process: together where both fit, in turns where one does, and memory falls each time."""

from __future__ import annotations

import gc
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from mlxbatch import blas

blas.preload()

import mlx.core as mx  # noqa: E402

from mlxbatch import device  # noqa: E402
from mlxbatch.audio import decode  # noqa: E402
from mlxbatch.device import DeviceSettings  # noqa: E402
from mlxbatch.engines.base import EngineSpec  # noqa: E402
from mlxbatch.engines.whisper.engine import WhisperEngine  # noqa: E402
from mlxbatch.models.residency import Residency, device_residency  # noqa: E402
from mlxbatch.models.weights import loaded_bytes, weight_files  # noqa: E402
from mlxbatch.types import Item, TranscribeOptions  # noqa: E402
from mlxbatch.vad import detector  # noqa: E402
from tests.engines.whisper.parts import job, outputs_by_job  # noqa: E402
from tests.jobs import Given  # noqa: E402

pytestmark = pytest.mark.real
RECORDING = Path(__file__).parents[2] / "examples" / "calls" / "ss-noservice.wav"
# What is on the device beside weights, at most: rules, positions, what a step leaves behind.
BESIDE = 12 * 10**6


def held() -> int:
    gc.collect()
    device.reclaim()
    return mx.get_active_memory()


def engine(model: Path, dtype: str, residency: Residency) -> WhisperEngine:
    return WhisperEngine(EngineSpec("whisper", model, batch_size=1, dtype=dtype), residency)


def heard(of: WhisperEngine) -> str:
    samples = decode(Item("a", RECORDING, Path("a"))).samples[0]
    given = Given([job(0, samples, TranscribeOptions(language="en"))])
    outputs = outputs_by_job(list(of.run(given, lambda live: 1)))[0]
    return " ".join(segment.text for output in outputs for segment in output.segments)


def test_whisper_and_another_form_of_it_take_turns(whisper_base: Path) -> None:
    """Whisper base in single and in half precision: 287 and 144 MB, of which 330 MB hold one at a time."""
    files = weight_files(whisper_base)
    single, half = loaded_bytes(files, "float32"), loaded_bytes(files, "float16")
    before = held()
    with device_residency(DeviceSettings()) as residency:
        residency.budget = 330 * 10**6  # of weights alone: as MLX's own limit it would leave no room to work fast
        with closing(engine(whisper_base, "float32", residency)) as first:
            assert single - BESIDE < held() - before < single + BESIDE
            with closing(engine(whisper_base, "bfloat16", residency)) as second:
                assert half - BESIDE < held() - before < half + BESIDE
                words = heard(first)
                assert single - BESIDE < held() - before < single + BESIDE
                mx.reset_peak_memory()
                with second._models():
                    assert half - BESIDE < held() - before < half + BESIDE
                assert mx.get_peak_memory() - before < residency.budget + BESIDE
                assert heard(first) == words
        assert "not in service" in words
        assert (residency.resident.loads, residency.resident.evictions) == (5, 4)
        assert residency.resident.bytes <= residency.budget
    assert held() - before < BESIDE


def test_where_both_fit_they_live_together(whisper_base: Path) -> None:
    before = held()
    with (
        device_residency(DeviceSettings(memory_limit="450MB")) as residency,
        closing(engine(whisper_base, "float32", residency)) as first,
        closing(engine(whisper_base, "float16", residency)) as second,
    ):
        for one in (first, second, first):
            with one._models():
                pass
        assert (residency.resident.loads, residency.resident.evictions) == (2, 0)
        assert held() - before < residency.budget + BESIDE
    assert held() - before < BESIDE


def speech(residency: Residency, directory: Path) -> float:
    """Silero's highest probability of speech in the recording, the networks loaded for it where they are not there."""
    size = loaded_bytes(weight_files(directory), "float32")
    with residency.use("silero", lambda: detector.load(directory), size) as networks:
        listening: detector.Detector[int] = detector.Detector(networks[16_000], mx.new_stream(mx.Device(mx.cpu)))
        listening.join(0, decode(Item("a", RECORDING, Path("a"))).samples[0])
        while not (done := listening.advance()):
            pass
    return float(np.max(done[0][1]))


def test_whisper_and_silero_live_together_or_take_turns(whisper_base: Path, silero_vad: Path) -> None:
    whisper = loaded_bytes(weight_files(whisper_base), "float32")
    detecting = loaded_bytes(weight_files(silero_vad), "float32")
    before = held()
    for limit, loads, evictions in ((whisper + detecting, 2, 0), (whisper + detecting // 2, 5, 4)):
        with device_residency(DeviceSettings()) as residency:
            residency.budget = limit
            with closing(engine(whisper_base, "float32", residency)) as first:
                assert speech(residency, silero_vad) > 0.9
                if evictions:
                    assert held() - before < detecting + BESIDE
                words = heard(first)
                assert held() - before < whisper + detecting + BESIDE
                assert speech(residency, silero_vad) > 0.9
                with first._models():
                    pass
            assert "not in service" in words
            assert (residency.resident.loads, residency.resident.evictions) == (loads, evictions)
            assert residency.resident.bytes <= residency.budget
    assert held() - before < BESIDE
