"""What a hardware profile may hold: strict, frozen models. Each field's description says what is allowed.

Only `mlxbatch.profile` imports this module, and only when it loads, because pydantic takes 0.1 s to import.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator

from mlxbatch.budget import parse_amount, parse_bytes
from mlxbatch.errors import UsageError
from mlxbatch.headerless import SPELLING, parse, suffix
from mlxbatch.types import Channels

SCHEMA_VERSION = 1


def _amount(text: str) -> str:
    try:
        parse_amount(text, total=1)
    except UsageError as error:
        # pydantic gathers ValueErrors only; its message is not shown, the field's description is.
        raise ValueError(str(error)) from error
    return text


def _size(text: str) -> str:
    try:
        parse_bytes(text)
    except UsageError as error:
        raise ValueError(str(error)) from error
    return text


def _wired(text: str) -> str:
    return text if text in ("none", "auto") else _amount(text)


def _ladder(steps: list[float]) -> list[float]:
    if not (steps and all(0 <= step <= 2 for step in steps) and all(low < high for low, high in pairwise(steps))):
        raise ValueError("not rising numbers from 0 to 2")
    return steps


def _channels(value: object) -> object:
    # Not as a union of types, each of which would have an error of its own.
    if value in ("mix", "split") or (type(value) is int and value >= 0):
        return value
    raise ValueError(f"no channels: {value!r}")


Amount = Annotated[str, AfterValidator(_amount)]
Size = Annotated[str, AfterValidator(_size)]
Wired = Annotated[str, AfterValidator(_wired)]
Ladder = Annotated[list[float], AfterValidator(_ladder)]
OneOfChannels = Annotated[Channels, PlainValidator(_channels)]

AMOUNT = 'a size such as "12GB" or "12GiB", or a share of the device\'s memory such as "75%"'
SIZE = 'a size such as "512MB" or "1.5GiB"'


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Device(Section):
    """The device and what may be held on it; sizes as text, made into bytes by `mlxbatch.budget`."""

    kind: Literal["cpu", "gpu"] = Field(default="cpu", description='"cpu" or "gpu"')
    memory_limit: Amount = Field(default="75%", description=AMOUNT)
    cache_limit: Amount = Field(default="1GB", description=AMOUNT)
    wired_limit: Wired = Field(default="none", description=f'"none", "auto" (the weights and 4 GB), {AMOUNT}')
    blas: Literal["openblas", "bundled"] = Field(
        default="bundled", description='"openblas" (loaded before MLX) or "bundled"'
    )
    blas_threads: int | None = Field(default=None, ge=1, le=256, description="a whole number from 1 to 256")


class Transcribe(Section):
    """How speech recognition is fed: the model and its form, rows in a batch, windows in an encoder call, streams."""

    model: str = Field(default="whisper-base", min_length=1, description="a model's name or directory")
    batch_size: int = Field(default=8, ge=1, le=64, description="a whole number from 1 to 64 (8-16 is advised)")
    dtype: Literal["float32", "float16", "bfloat16"] = Field(
        default="float32", description='"float32", "float16" or "bfloat16"'
    )
    segment_seconds: float | None = Field(
        default=None, ge=1, le=3600, description="seconds from 1 to 3600; not for Whisper, whose windows are 30 s"
    )
    vad: bool = Field(default=True, description="true (only speech is heard) or false")
    encode_rows: int = Field(default=8, ge=1, le=64, description="a whole number of windows from 1 to 64")
    encode_streams: int = Field(default=1, ge=1, le=16, description="a whole number from 1 to 16")
    cpu_streams: int = Field(default=1, ge=1, le=16, description="a whole number from 1 to 16")
    bits: Literal["none", 2, 3, 4, 5, 6, 8] = Field(
        default="none", description='2, 3, 4, 5, 6 or 8 (weights are quantized on loading), or "none" (as stored)'
    )
    task: Literal["transcribe", "translate"] = Field(default="transcribe", description='"transcribe" or "translate"')
    prompt: str = Field(default="", description="text that comes before each recording, empty for none")
    hotwords: list[str] = Field(default=[], description='a list of words, such as ["Zsófia", "Kubernetes"]')
    max_tokens: int | None = Field(default=None, ge=8, le=32_768, description="a whole number from 8 to 32768")
    temperatures: Ladder = Field(
        default=[0.0, 0.2, 0.4, 0.6, 0.8, 1.0], description="rising numbers from 0 to 2, such as [0.0, 0.2, 0.4]"
    )
    compression_ratio_threshold: float = Field(default=2.4, gt=0, allow_inf_nan=False, description="a number over 0")
    logprob_threshold: float = Field(default=-1.0, le=0, allow_inf_nan=False, description="a number of at most 0")
    no_speech_threshold: float = Field(default=0.6, ge=0, le=1, description="a number from 0 to 1")
    channels: OneOfChannels = Field(default="mix", description='"mix", "split", or a channel\'s number, counted from 0')
    word_timestamps: bool = Field(
        default=False,
        description="true (each word of a segment has its times) or false (only where cues need them)",
    )
    encoder_context: Literal["auto", "full"] = Field(
        default="auto", description='"auto" (the encoder gets a window as long as it is) or "full" (30 s); for Whisper'
    )
    encoder_margin_seconds: float = Field(default=2.0, ge=0.2, le=30, description="seconds from 0.2 to 30")
    encoder_bucket_seconds: float = Field(default=1.0, ge=0.1, le=30, description="seconds from 0.1 to 30")
    encoder_stride: int = Field(default=16, ge=1, le=256, description="a whole number from 1 (all) to 256")


class Subtitles(Section):
    """Lines and cues of srt and vtt; without these a cue is a segment, on one line (docs/outputs.md)."""

    max_line_width: int | None = Field(
        default=None, ge=8, le=1000, description="a whole number of columns from 8 to 1000; wide characters take two"
    )
    max_line_count: int | None = Field(default=None, ge=1, le=20, description="a whole number of lines from 1 to 20")
    max_gap: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="seconds, over 0")
    highlight: bool = Field(default=False, description="true (each word is marked while it is spoken) or false")


def _rules(raw: dict[str, str]) -> dict[str, str]:
    """As `headerless.suffix` spells the names."""
    return {suffix(name): text for name, text in raw.items()}


def _rule(text: str) -> str:
    parse(text)
    return text


class Decode(Section):
    """How recordings are read: those without a header by the suffix of their name."""

    raw: Annotated[dict[str, Annotated[str, AfterValidator(_rule)]], AfterValidator(_rules)] = Field(
        default_factory=dict, description=SPELLING
    )


class Pipeline(Section):
    """How far decoding runs ahead of the model. `workers = 0` decodes on the caller's thread, one by one."""

    workers: int = Field(default=2, ge=0, le=64, description="a whole number from 0 (no threads) to 64")
    prefetch_bytes: Size = Field(default="512MB", description=SIZE)
    prefetch_items: int = Field(default=32, ge=1, le=10_000, description="a whole number from 1 to 10000")


class Governor(Section):
    """When memory gets short, calls get slow or the engine hangs: what is done, and from where on.

    The steps themselves lie at 80, 90 and 100 % of the limit (docs/operations.md).
    """

    on_pressure: Literal["wait", "refuse"] = Field(default="wait", description='"wait" or "refuse" (end the run)')
    fallback_model: str = Field(default="", description="a smaller model that takes over at 90 %, empty for none")
    latency_limit: float | None = Field(default=None, gt=0, description="seconds per window (p99), over 0")
    stall_timeout: float = Field(default=600.0, gt=0, description="seconds without progress, over 0")
    leak_bound: Amount = Field(default="10%", description=f'{SIZE}, or a share of memory_limit such as "10%"')


class State(Section):
    """What a run leaves behind in OUT/.mlxbatch, and the room it leaves on the disk."""

    keep_runs: int = Field(default=100, ge=1, le=100_000, description="a whole number from 1 to 100000")
    min_free: Size = Field(default="100MB", description=SIZE)


class Profile(Section):
    """One machine's settings. `schema_` is the version of the file format, "schema" in TOML."""

    schema_: Literal[1] = Field(alias="schema", description=f"{SCHEMA_VERSION}, the version that this program reads")
    name: str = Field(min_length=1, description="a name")
    description: str = Field(default="", description="a line of text")
    base: str = Field(default="", description="the profile that this one is built on, a name or file")
    platform: str = Field(default="any", description='"linux", "darwin" or "any"', pattern="^(linux|darwin|any)$")
    machine: str = Field(default="any", description='"x86_64", "arm64" or "any"', pattern="^(x86_64|arm64|any)$")
    gpu: Literal["metal", "cuda", "none", "any"] = Field(
        default="any", description='"metal", "cuda", "none" (no GPU that MLX can use) or "any"'
    )
    chip: str = Field(default="any", min_length=1, description='a chip or its family, such as "Apple M4", or "any"')
    device: Device = Field(default_factory=Device, description="a table, [device]")
    transcribe: Transcribe = Field(default_factory=Transcribe, description="a table, [transcribe]")
    subtitles: Subtitles = Field(default_factory=Subtitles, description="a table, [subtitles]")
    decode: Decode = Field(default_factory=Decode, description="a table, [decode]")
    pipeline: Pipeline = Field(default_factory=Pipeline, description="a table, [pipeline]")
    governor: Governor = Field(default_factory=Governor, description="a table, [governor]")
    state: State = Field(default_factory=State, description="a table, [state]")


class When(Section):
    """The machines that a [[when]] rule is for: all of its conditions hold."""

    chip: str | None = Field(default=None, min_length=1, description='a chip or its family, such as "Apple M4 Max"')
    memory_from: Size | None = Field(default=None, description=f"{SIZE}: this much or more")
    memory_below: Size | None = Field(default=None, description=f"{SIZE}: less than this")
    gpu_cores_from: int | None = Field(default=None, ge=1, description="a whole number over 0: so many or more")
    gpu_cores_below: int | None = Field(default=None, ge=1, description="a whole number over 0: fewer")


def conditions() -> dict[str, str]:
    """Every condition of a [[when]] rule -> what it may be."""
    return {name: field.description or "" for name, field in When.model_fields.items()}


def allowed() -> dict[str, str]:
    """Every dotted key a profile may hold -> what it may be: {"device.kind": '"cpu" or "gpu"', ...}."""
    found: dict[str, str] = {}
    for field, info in Profile.model_fields.items():
        key = info.alias or field
        found[key] = info.description or ""
        section = info.annotation
        if isinstance(section, type) and issubclass(section, Section):
            found |= {f"{key}.{name}": sub.description or "" for name, sub in section.model_fields.items()}
    return found
