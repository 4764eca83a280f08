"""What is told of a Whisper's memory before it is loaded, against what the loaded engine says."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from mlxbatch.encoder_context import FULL, Context
from mlxbatch.engines import registry
from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.whisper.footprint import Memory
from mlxbatch.engines.whisper.layout import Dims
from mlxbatch.types import Job, TranscribeOptions
from mlxbatch.vad.layout import ROW_BYTES
from tests.jobs import RATE, Given

CALL = Path(__file__).resolve().parents[3] / "examples" / "calls" / "demo-echotest.wav"
# The sizes of Whisper base.
BASE = Dims(
    n_mels=80,
    n_audio_ctx=1500,
    n_audio_state=512,
    n_audio_head=8,
    n_audio_layer=6,
    n_vocab=51865,
    n_text_ctx=448,
    n_text_state=512,
    n_text_head=8,
    n_text_layer=6,
)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_it_is_what_the_engine_says(tiny: Path, dtype: str) -> None:
    spec = EngineSpec("whisper", tiny, dtype=dtype)
    told, engine = registry.footprint(spec), registry.build(spec)
    assert told is not None
    try:
        assert told.weights == engine.weights()
        for seconds in (0.0, 3.7, 3600.0):
            assert (told.need(seconds), told.working(seconds)) == (engine.need(seconds), engine.working(seconds))
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


def memory(**other: Any) -> Memory:
    return Memory(BASE, EngineSpec("whisper", **other))


def test_a_window_counts_at_its_own_length_and_no_window_is_longer_than_30_s() -> None:
    """Of 5 s the encoder gets 6 s whole and 75 stretches, 375 positions; of 30 s it gets all 1500."""
    short, long, hour = (memory().need(seconds) - round(seconds * RATE) * 4 for seconds in (5.0, 30.0, 3600.0))
    assert long == hour
    assert short < 0.35 * long
    assert memory(context=FULL).need(5.0) > 0.85 * long
    assert memory(context=FULL).working(5.0) == memory().working(30.0) > 3 * memory().working(5.0)


def test_a_longer_text_takes_a_longer_cache() -> None:
    """One second more: 64 tokens hold the text of 8 s, and not that of 9 s."""
    layers, width, size = BASE.n_text_layer, BASE.n_text_state, 4
    context = Context(bucket=30.0)  # the same audio for both
    more = memory(context=context).need(9.0) - memory(context=context).need(8.0)
    assert more == RATE * 4 + 2 * layers * width * size * (128 - 64)


def test_what_is_under_way_grows_with_the_calls_and_not_with_the_slots() -> None:
    # Encoded ahead are as many windows as calls take at a time, and half the slots where those are more.
    one, row = memory(batch_size=2).working(5.0), 2 * BASE.n_text_layer * 422 * BASE.n_text_state * 4
    assert memory(batch_size=16).working(5.0) == one + 7 * row
    fixed = 1500 * 512 * 4  # the encoder's positions
    assert memory(batch_size=2, encode_streams=3).working(5.0) - fixed == 3 * (one - fixed)
    assert memory(batch_size=2, encode_rows=2).working(5.0) > one
    assert memory(batch_size=2, vad=Path("vad")).working(5.0) == one + ROW_BYTES


def test_a_gpu_keeps_no_scores() -> None:
    """On the CPU all of a layer's tiles are there at once: 8 heads of 1500 x 1500 scores, 72 MB, and more."""
    on_cpu = memory(batch_size=2).working(30.0)
    assert memory(batch_size=2, device={"kind": "gpu"}).working(30.0) < 0.6 * on_cpu
    assert on_cpu > 8 * 1500**2 * 4
    assert memory(dtype="float16").working(30.0) > 8 * 1500**2 * 2 * 3, "MLX's own attention keeps them all"


@pytest.mark.real
@pytest.mark.parametrize("seconds", [3.0, 7.0])
def test_a_run_takes_what_was_predicted(whisper_base: Path, seconds: float) -> None:
    """The device's peak over a batch of eight that is full: within 15 %."""
    spec = EngineSpec("whisper", whisper_base, batch_size=8, encode_streams=2, blas_threads=1)
    # None is doubtful, so that none is encoded a second time, at 30 s.
    options = TranscribeOptions(language="en", max_tokens=8, logprob_threshold=-99.0, compression_ratio_threshold=99.0)
    recorded, _ = soundfile.read(CALL, dtype="float32")
    at_16_khz = np.repeat(recorded, 2)
    sounds = [np.roll(at_16_khz, -number * RATE)[: round(seconds * RATE)] for number in range(16)]
    jobs = [Job(number, f"{number}", sound, seconds, options=options) for number, sound in enumerate(sounds)]
    told = registry.footprint(spec)
    assert told is not None
    with closing(registry.build(spec)) as engine:
        engine.readings()
        peak = max(engine.readings().peak for _ in engine.run(Given(jobs), lambda live: 8))
    assert told.group([told.need(seconds)] * 8, seconds) == pytest.approx(peak, rel=0.15)


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
