"""What a run was asked for, and what follows from it: inputs, model, the engine's spec, the runner's settings."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from mlxbatch import blas, words
from mlxbatch.cli.log import Level
from mlxbatch.discover import Found, discover
from mlxbatch.encoder_context import FULL, Context
from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.families import WHISPER, Family, family_of, heeded, ignored, refuse, require
from mlxbatch.engines.registry import DETECTING, VERSIONS
from mlxbatch.engines.whisper.abilities import Abilities
from mlxbatch.errors import SetupError, UsageError, show
from mlxbatch.file_list import called, read_list
from mlxbatch.filters import Filters
from mlxbatch.governor import Policy
from mlxbatch.headerless import rules
from mlxbatch.ledger import inference_key, rendering_key
from mlxbatch.manifest import read_manifest
from mlxbatch.models.resolve import ResolvedModel, resolve, resolve_package
from mlxbatch.overseer import Oversight
from mlxbatch.pacing import clock
from mlxbatch.profile import Loaded, parse_bytes
from mlxbatch.profile_schema import Profile
from mlxbatch.runner import ModelKey, RunSettings
from mlxbatch.types import Item, TranscribeOptions
from mlxbatch.wishes import check_speakers, options_for
from mlxbatch.writers import SUBTITLES, LineRules

VAD = "silero-vad"


@dataclass(frozen=True, slots=True)
class Where:
    """What is read, and where results go. `null`: the list's paths have NUL bytes between them, and nothing else."""

    inputs: tuple[Path, ...]
    files_from: Path | None
    root: Path | None
    output: Path
    null: bool = False
    manifest: Path | None = None
    filters: Filters = field(default_factory=Filters)

    @property
    def named(self) -> list[Path]:
        """All that the user named as input, as it was named."""
        return [*self.inputs, *(one for one in (self.files_from, self.manifest) if one is not None)]


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
    speakers: tuple[str, ...] = ()
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
    def models(self) -> list[str]:
        """Its name, and that of the model that takes over from it where there is one."""
        return [name for name in (self.model, self.profile.governor.fallback_model) if name]

    @property
    def stop_at(self) -> float | None:
        """When nothing more is to be begun, on pacing.clock: what came before the run counts as well."""
        limit = self.schedule.time_limit
        return None if limit is None else self.began + limit

    @property
    def options(self) -> TranscribeOptions:
        settings = self.profile.transcribe
        return TranscribeOptions(
            language=self.language,
            channels=settings.channels,
            task=settings.task,
            temperatures=tuple(settings.temperatures),
            compression_ratio_threshold=settings.compression_ratio_threshold,
            logprob_threshold=settings.logprob_threshold,
            no_speech_threshold=settings.no_speech_threshold,
            prompt=settings.prompt,
            hotwords=tuple(settings.hotwords),
            max_tokens=settings.max_tokens,
            vad=settings.vad,
            words=settings.word_timestamps or bool(self.lines.timed),
            encoder_context=settings.encoder_context,
        )

    @property
    def lines(self) -> LineRules:
        """The rules for subtitles; none where there are to be none."""
        rules = self.profile.subtitles
        if not any(name in SUBTITLES for name in self.formats):
            return LineRules()
        return LineRules(rules.max_line_width, rules.max_line_count, rules.max_gap, rules.highlight)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The engine that will work, its model, and what finds speech for it, if anything does."""

    engine: str
    name: str
    sha: str
    path: Path | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    vad: ResolvedModel | None = None

    @property
    def family(self) -> Family | None:
        """The model's family; None where there is no model."""
        return None if self.path is None else family_of(self.path)


def choose(name: str, *, offline: bool, say: Callable[[str], None], scratch: Path | None = None) -> Chosen:
    """Find the model and the engine that runs it, fetching it unless `offline`; `scratch` as in `resolve`.

    SetupError where it is not whole, or what runs it is not installed.
    """
    found = resolve(name, offline=offline, say=say, scratch=scratch)
    family = family_of(found.path)
    require(family)
    return Chosen(family.engine, name, found.sha, found.path)


def engine_spec(request: Request, chosen: Chosen) -> EngineSpec:
    """What a worker builds the engine from. Shares of memory go as text: only the worker can ask a GPU its size."""
    device, settings = request.profile.device, request.profile.transcribe
    return EngineSpec(
        engine=chosen.engine,
        model=chosen.path,
        batch_size=settings.batch_size,
        dtype=settings.dtype,
        bits=None if settings.bits == "none" else settings.bits,
        segment_seconds=settings.segment_seconds,
        context=FULL if settings.encoder_context == "full" else encoder_context(request.profile),
        words=request.options.words,
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


def conditions(request: Request, chosen: Chosen) -> dict[str, Any]:
    """What a run's speed depends on (prediction.CONDITIONS), as it is written down when the run begins."""
    return {
        "host": show(socket.gethostname()),
        "sha": chosen.sha,
        "profile": request.settings.name,
        "dtype": model_form(request.profile, chosen.family),
        "batch_size": request.profile.transcribe.batch_size,
        "channels": request.profile.transcribe.channels,
        "vad": chosen.vad is not None,
        "words": request.options.words,
        "encoder_context": request.options.encoder_context,
    }


def choose_all(
    request: Request, *, offline: bool, say: Callable[[str], None], names: Sequence[str] | None = None
) -> list[Chosen]:
    """The models of those names, by default the one asked for and what takes over from it; with what finds speech."""
    chosen = [choose(name, offline=offline, say=say) for name in (request.models if names is None else names)]
    if not request.options.vad or not any(one.engine in DETECTING for one in chosen):
        return chosen
    return with_detector(chosen, detector(offline=offline, say=say))


def with_detector(chosen: Sequence[Chosen], vad: ResolvedModel) -> list[Chosen]:
    return [replace(one, vad=vad) if one.engine in DETECTING else one for one in chosen]


def detector(*, offline: bool, say: Callable[[str], None]) -> ResolvedModel:
    """What finds speech, fetched where it is missing, unless `offline`; SetupError where it cannot be had."""
    try:
        return resolve_package(VAD, offline=offline, say=say)
    except SetupError as error:
        raise type(error)(f"{error}; or hear everything, with --no-vad") from error


def suits(request: Request, chosen: Sequence[Chosen], items: Sequence[Item]) -> list[str]:
    """What the user should know of what is asked of each model; UsageError where one of them cannot do it.

    To be asked before any audio is read. What a manifest asks of one recording alone fails that one only.
    """
    asked = dict.fromkeys([request.options, *(options_for(request.options, item) for item in items)])
    found = [note for one in chosen if one.path is not None for note in _heeded(request, one, one.path, list(asked))]
    return list(dict.fromkeys(found))


def _heeded(request: Request, chosen: Chosen, path: Path, asked: Sequence[TranscribeOptions]) -> list[str]:
    options, family = request.options, family_of(path)
    # Where a manifest may give each recording its language, the engine will see.
    refuse(family, options, detects=family.detects or request.where.manifest is not None)
    found = [note for one in asked for note in ignored(family, one)]
    # Reading a vocabulary takes a moment, so only where it matters.
    special = options.language or options.task == "translate" or options.prompt or options.hotwords
    if family is WHISPER and special:
        abilities = Abilities.read(path)
        if refusal := abilities.refusal(options):
            raise UsageError(f"{show(chosen.name)} {refusal}")
        found += [f"{show(chosen.name)} {note}"] if (note := abilities.note(options)) else []
    return found


def encoder_context(profile: Profile) -> Context:
    settings = profile.transcribe
    return Context(settings.encoder_margin_seconds, settings.encoder_bucket_seconds, settings.encoder_stride)


def model_form(profile: Profile, family: Family | None = None) -> str:
    """How the profile has a model's weights and pieces, as far as it changes the text: "float16, 6 bits, 300 s".

    A Whisper's windows are what they are; what it changes of them is how much silence the encoder gets behind them.
    """
    settings, whisper = profile.transcribe, family is WHISPER
    parts: list[str] = [settings.dtype]
    parts += [] if settings.bits == "none" else [f"{settings.bits} bits"]
    parts += [] if settings.segment_seconds is None or whisper else [f"{settings.segment_seconds:g} s"]
    context = encoder_context(profile)
    parts += [str(context)] if whisper and context != Context() else []
    return ", ".join(parts)


def model_key(request: Request, chosen: Chosen) -> ModelKey:
    """What cannot change a model's text is not in its key, so that no recording is heard again for it."""
    family = chosen.family
    form = model_form(request.profile, family)

    @lru_cache(maxsize=1024)
    def key(options: TranscribeOptions) -> str:
        return inference_key(
            model_sha=chosen.sha,
            engine=chosen.engine,
            engine_version=VERSIONS[chosen.engine],
            options=options if family is None else replace(heeded(family, options), vad=chosen.vad is not None),
            dtype=form,
            vad_sha=chosen.vad.sha if chosen.vad else "",
        )

    return ModelKey(chosen.name, key, chosen.sha)


def oversight(profile: Profile) -> Oversight:
    governor = profile.governor
    policy = Policy(governor.on_pressure == "refuse", bool(governor.fallback_model), governor.latency_limit)
    return Oversight(policy, governor.leak_bound, profile.device.kind, dtype=model_form(profile))


def run_settings(request: Request, chosen: Sequence[Chosen]) -> RunSettings:
    """`chosen`: the model asked for, then the one that may take over."""
    profile = request.profile
    return RunSettings(
        output=request.output,
        formats=request.formats,
        models=tuple(model_key(request, one) for one in chosen),
        rendering_key=rendering_key(request.formats, request.lines.asked),
        options=request.options,
        speakers=request.speakers,
        lines=request.lines,
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
        headerless=rules(profile.decode.raw),
    )


def find_inputs(request: Request) -> Found:
    """All inputs as items; UsageError where none was named, one is not there, or speakers are named in a mix."""
    where = request.where
    if not where.named:
        raise UsageError("no inputs: name files or directories, or give a list with --files-from or --manifest")
    if where.null and where.files_from is None:
        raise UsageError("-0 says what --files-from is like, and there is none")
    if where.files_from == where.manifest == Path("-"):
        raise UsageError("--files-from and --manifest cannot both be standard input")
    found = discover(
        where.inputs,
        listed=[] if where.files_from is None else read_list(where.files_from, nul=where.null),
        rows=[] if where.manifest is None else read_manifest(where.manifest),
        root=where.root,
        filters=where.filters,
        output=where.output,
        also=request.profile.decode.raw,
    )
    check_speakers(request.speakers, request.options, found.items)
    return found


def nothing_found(request: Request, found: Found) -> str:
    named = ", ".join(called(path) for path in request.where.named)
    left_out = f" ({words.not_taken(found.not_taken)})" if found.not_taken else ""
    return f"nothing to transcribe: no audio files in {named}{left_out}"


def notes(request: Request) -> list[str]:
    """What the user should know before the run: of the profile, of the machine, of options that do nothing."""
    device = request.profile.device
    lacks_blas = device.kind == "cpu" and device.blas == "openblas" and not blas.preload()
    return [*request.settings.notes, *([blas.MISSING] if lacks_blas else []), *_idle(request)]


def _idle(request: Request) -> list[str]:
    """Rules given as options for subtitles that there are not to be; those of files hold for other runs as well."""
    if any(name in SUBTITLES for name in request.formats):
        return []
    rules, origins = request.profile.subtitles, request.settings.origins
    given = [origins.get(f"subtitles.{name}", "") for name, value in rules if value]
    return [f"{by}: only srt and vtt have lines and cues, and none is asked for" for by in given if by.startswith("--")]
