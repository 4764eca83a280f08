"""What a model makes of clips, through the engine that runs it in a batch job; how fast, in how much memory."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import mlx.core as mx

from mlxbatch import kernels, profile
from mlxbatch.convert.proof.clips import Sound
from mlxbatch.convert.proof.quality import Speed
from mlxbatch.encoder_context import Context
from mlxbatch.engines import registry
from mlxbatch.engines.base import Engine, EngineSpec
from mlxbatch.engines.families import require
from mlxbatch.models.architecture import quantization, read_json
from mlxbatch.models.whole import check_model
from mlxbatch.types import Job, JobFailed, Output, TranscribeOptions

# Without a ladder of temperatures: a sample drawn anew would change texts that the weights do not change.
DECODING = "greedy"
# Of a profile's [device], what the engine's process sets.
_DEVICE = ("kind", "memory_limit", "cache_limit", "wired_limit", "blas")


@dataclass(frozen=True, slots=True)
class Heard:
    """What became of each clip, in order: its outputs, or why there are none. Texts are "" where there are none."""

    outputs: tuple[tuple[Output, ...], ...]
    problems: tuple[str | None, ...]
    speed: Speed

    @property
    def texts(self) -> list[str]:
        return [" ".join(segment.text for one in some for segment in one.segments) for some in self.outputs]


def profile_spec(name: str | None = None) -> EngineSpec:
    """An engine set as a profile says, by default this machine's; but weights are as they are stored, whatever it says.

    Engine and model are to be filled in. Raises UsageError for a profile that is not right.
    """
    settings = profile.load(name).profile
    own, machine = settings.transcribe, settings.device
    return EngineSpec(
        engine="",
        batch_size=own.batch_size,
        dtype=own.dtype,
        segment_seconds=own.segment_seconds,
        encode_rows=own.encode_rows,
        encode_streams=own.encode_streams,
        cpu_streams=own.cpu_streams,
        blas_threads=machine.blas_threads,
        context=Context(own.encoder_margin_seconds, own.encoder_bucket_seconds, own.encoder_stride),
        device={name: getattr(machine, name) for name in _DEVICE},
    )


def hear(directory: Path, sounds: Sequence[Sound], spec: EngineSpec) -> Heard:
    """Transcribe the clips greedily with a model's directory, the engine set as `spec` says but for engine and model.

    The clip that is heard first counts for no time: it brings weights into caches. Raises SetupError where the
    directory is no whole model, and what the engine raises.
    """
    family = check_model(directory)
    require(family)
    spec = replace(spec, engine=family.engine, model=directory, vad=None)
    with closing(registry.build(spec)) as engine:
        first = min(range(len(sounds)), key=lambda number: len(sounds[number].samples))
        _run(engine, [sounds[first]], spec)
        mx.reset_peak_memory()
        began = time.monotonic()
        outputs, problems = _run(engine, sounds, spec)
        seconds = time.monotonic() - began
        peak = mx.get_peak_memory()
    speed = Speed(seconds, sum(sound.seconds for sound in sounds), peak, arithmetic(directory, spec))
    return Heard(outputs, problems, speed)


def arithmetic(directory: Path, spec: EngineSpec) -> str:
    """What a model is computed with here: MLX's CPU build gets quantized weights as plain ones, which are faster."""
    packed = quantization(read_json(directory / "config.json")) is not None
    if not packed:
        return spec.dtype
    return f"{spec.dtype}, weights {'quantized' if kernels.on_gpu() else 'dequantized on loading'}"


def _run(
    engine: Engine, sounds: Sequence[Sound], spec: EngineSpec
) -> tuple[tuple[tuple[Output, ...], ...], tuple[str | None, ...]]:
    outputs: list[list[Output]] = [[] for _ in sounds]
    problems: list[str | None] = [None] * len(sounds)
    for event in engine.run(_Jobs(_jobs(sounds, engine.sample_rate)), lambda live: spec.batch_size):
        if isinstance(event, JobFailed):
            problems[event.job_id] = event.cause
        else:
            outputs[event.job_id].append(event)
    return tuple(tuple(some) for some in outputs), tuple(problems)


def _jobs(sounds: Sequence[Sound], rate: int) -> Iterator[Job]:
    for number, sound in enumerate(sounds):
        options = TranscribeOptions(language=sound.clip.language, temperatures=(0.0,))
        yield Job(number, str(number), sound.at(rate), sound.seconds, options=options)


class _Jobs:
    """All there at once (engines.base.Jobs)."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._jobs = iter(jobs)

    def __iter__(self) -> Iterator[Job]:
        return self

    def __next__(self) -> Job:
        return next(self._jobs)

    def ready(self) -> bool:
        return True
