"""What a run was asked for, and what follows from it: inputs, model, the engine's spec, the runner's settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mlxbatch import blas
from mlxbatch.cli.log import Level
from mlxbatch.discover import Found, discover, read_list
from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.registry import DETECTING, VERSIONS
from mlxbatch.errors import SetupError, UsageError, show
from mlxbatch.governor import Policy
from mlxbatch.ledger import inference_key, rendering_key
from mlxbatch.models import catalogue
from mlxbatch.models.resolve import ResolvedModel, resolve
from mlxbatch.overseer import Oversight
from mlxbatch.pacing import clock
from mlxbatch.profile import Loaded, parse_bytes
from mlxbatch.profile_schema import Profile
from mlxbatch.runner import ModelKey, RunSettings
from mlxbatch.types import TranscribeOptions
from mlxbatch.words import count

VAD = "silero-vad"


@dataclass(frozen=True, slots=True)
class Where:
    """What is read, and where results go."""

    inputs: tuple[Path, ...]
    files_from: Path | None
    root: Path | None
    output: Path


@dataclass(frozen=True, slots=True)
class Flags:
    """How a run is gone about, and what it shows: the same in every verb."""

    force: bool = False
    retry_quarantined: bool = False
    offline: bool = False
    break_lock: bool = False
    quiet: bool = False
    verbose: bool = False
    as_json: bool = False
    log_level: Level = "info"


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a run works, and what it gives way to. `wait`, for a lock, and `time_limit` are seconds."""

    wait: float = 0.0
    time_limit: float | None = None
    max_load: float | None = None
    nice: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for, checked. `settings` has the flags' and the environment's values in it."""

    where: Where
    flags: Flags
    settings: Loaded
    language: str | None
    formats: tuple[str, ...]
    schedule: Schedule = Schedule()
    command: str = ""
    began: float = field(default_factory=clock)

    @property
    def output(self) -> Path:
        return self.where.output

    @property
    def profile(self) -> Profile:
        return self.settings.profile

    @property
    def model(self) -> str:
        """The model's name as it was given."""
        return self.profile.transcribe.model

    @property
    def stop_at(self) -> float | None:
        """When nothing more is to be begun, on pacing.clock: what came before the run counts as well."""
        limit = self.schedule.time_limit
        return None if limit is None else self.began + limit

    @property
    def options(self) -> TranscribeOptions:
        return TranscribeOptions(language=self.language, vad=self.profile.transcribe.vad)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The engine that will work, its model, and what finds speech for it, if anything does."""

    engine: str
    name: str
    sha: str
    path: Path | None = None
    vad: ResolvedModel | None = None
    extra: dict[str, Any] = field(default_factory=dict)


def choose(name: str, *, offline: bool, say: Callable[[str], None]) -> Chosen:
    """Find the model and the engine that runs it, fetching it unless `offline`; SetupError where it is not whole."""
    found = resolve(name, offline=offline, say=say)
    known = catalogue.find(name)
    return Chosen(known.engine if known else "whisper", name, found.sha, found.path)


def engine_spec(profile: Profile, chosen: Chosen) -> EngineSpec:
    """What a worker builds the engine from. Shares of memory go as text: only the worker can ask a GPU its size."""
    device, settings = profile.device, profile.transcribe
    return EngineSpec(
        engine=chosen.engine,
        model=chosen.path,
        batch_size=settings.batch_size,
        dtype=settings.dtype,
        encode_rows=settings.encode_rows,
        encode_streams=settings.encode_streams,
        cpu_streams=settings.cpu_streams,
        blas_threads=device.blas_threads,
        vad=chosen.vad.path if chosen.vad else None,
        device={
            "kind": device.kind,
            "memory_limit": device.memory_limit,
            "cache_limit": device.cache_limit,
            "wired_limit": device.wired_limit,
            "blas": device.blas,
        },
        extra=dict(chosen.extra),
    )


def choose_all(request: Request, *, offline: bool, say: Callable[[str], None]) -> list[Chosen]:
    """The model asked for, and the one that takes over from it where the profile names one."""
    fallback = request.profile.governor.fallback_model
    chosen = [choose(name, offline=offline, say=say) for name in (request.model, fallback) if name]
    if not request.options.vad or not any(one.engine in DETECTING for one in chosen):
        return chosen
    vad = detector(offline=offline, say=say)
    return [replace(one, vad=vad) if one.engine in DETECTING else one for one in chosen]


def detector(*, offline: bool, say: Callable[[str], None]) -> ResolvedModel:
    """What finds speech, fetched where it is missing, unless `offline`; SetupError where it cannot be had."""
    try:
        return resolve(VAD, offline=offline, say=say)
    except SetupError as error:
        raise SetupError(f"{error}; or hear everything, with --no-vad") from error


def model_key(request: Request, chosen: Chosen) -> ModelKey:
    key = inference_key(
        model_sha=chosen.sha,
        engine=chosen.engine,
        engine_version=VERSIONS[chosen.engine],
        options=request.options,
        dtype=request.profile.transcribe.dtype,
        vad_sha=chosen.vad.sha if chosen.vad else "",
    )
    return ModelKey(chosen.name, key, chosen.sha)


def oversight(profile: Profile) -> Oversight:
    governor = profile.governor
    policy = Policy(governor.on_pressure == "refuse", bool(governor.fallback_model), governor.latency_limit)
    return Oversight(policy, governor.leak_bound, profile.device.kind, dtype=profile.transcribe.dtype)


def run_settings(request: Request, chosen: Sequence[Chosen]) -> RunSettings:
    """`chosen`: the model asked for, then the one that may take over."""
    profile = request.profile
    return RunSettings(
        output=request.output,
        formats=request.formats,
        models=tuple(model_key(request, one) for one in chosen),
        rendering_key=rendering_key(request.formats),
        options=request.options,
        batch_size=profile.transcribe.batch_size,
        workers=profile.pipeline.workers,
        prefetch_bytes=parse_bytes(profile.pipeline.prefetch_bytes),
        prefetch_items=profile.pipeline.prefetch_items,
        force=request.flags.force,
        retry_quarantined=request.flags.retry_quarantined,
        oversight=oversight(profile),
        min_free=parse_bytes(profile.state.min_free),
        stop_at=request.stop_at,
        max_load=request.schedule.max_load,
    )


def find_inputs(request: Request) -> Found:
    """All inputs as items; UsageError where none was named, or one is not there."""
    where = request.where
    if not where.inputs and where.files_from is None:
        raise UsageError("no inputs: name files or directories, or give a list with --files-from")
    listed = read_list(where.files_from) if where.files_from is not None else []
    return discover(where.inputs, listed=listed, root=where.root, output=where.output)


def nothing_found(request: Request, found: Found) -> str:
    named = [*request.where.inputs, *([request.where.files_from] if request.where.files_from else [])]
    ignored = f" ({count(found.ignored, 'other file')} passed over)" if found.ignored else ""
    return f"nothing to transcribe: no audio files in {', '.join(show(path) for path in named)}{ignored}"


def notes(request: Request) -> list[str]:
    """What the user should know before the run: of the profile, of the machine."""
    device = request.profile.device
    lacks_blas = device.kind == "cpu" and device.blas == "openblas" and not blas.preload()
    return [*request.settings.notes, *([blas.MISSING] if lacks_blas else [])]
