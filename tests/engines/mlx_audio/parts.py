"""Engines over tiny models, jobs of noise, and what came of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from mlxbatch.engines import registry
from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.mlx_audio.engine import MlxAudioEngine
from mlxbatch.types import Job, JobFailed, Output, TranscribeOptions
from tests.jobs import Given

PIECE = 2.0  # seconds
ENGLISH = TranscribeOptions(language="en", max_tokens=12)


def engine_over(directory: Path, batch_size: int = 4, **settings: Any) -> MlxAudioEngine:
    spec = EngineSpec("mlx-audio", directory, batch_size=batch_size, **{"segment_seconds": PIECE, **settings})
    return cast(MlxAudioEngine, registry.build(spec))


def job(number: int, seconds: float, rate: int, options: TranscribeOptions = ENGLISH, seed: int | None = None) -> Job:
    """Noise that rises and falls, so that no two moments sound alike."""
    rng = np.random.default_rng(number if seed is None else seed)
    count = round(seconds * rate)
    swell = 0.05 + 0.05 * np.sin(np.arange(count) * (7 + number) / rate)
    samples = (swell * rng.standard_normal(count)).astype(np.float32)
    return Job(number, f"item{number}", samples, count / rate, options=options)


def hear(engine: MlxAudioEngine, jobs: Sequence[Job]) -> list[Output | JobFailed]:
    return list(engine.run(Given(jobs), lambda live: 100))


def outputs(engine: MlxAudioEngine, jobs: Sequence[Job]) -> dict[int, list[Output]]:
    """Each job's outputs in the order in which they came; none of them may have failed."""
    found: dict[int, list[Output]] = {one.id: [] for one in jobs}
    for event in hear(engine, jobs):
        assert isinstance(event, Output), event
        found[event.job_id].append(event)
    return found


def said(found: Sequence[Output]) -> list[tuple[Any, ...]]:
    """What a job's outputs say, without what it took to hear it."""
    return [
        (one.window, one.last, one.language, one.stats.tokens, [(s.start, s.end, s.text) for s in one.segments])
        for one in found
    ]
