"""What is known of a converted model's quality: quality.json, from which its card and the list of models are made.

No MLX. Rates are shares of 1 (a word error rate of 0.05), divergences are in nats, sizes in bytes, times in seconds;
what is no finite number is written as "Infinity" or "NaN", in quotes, as JSON has neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from mlxbatch.convert.origin import Origin
from mlxbatch.convert.proof.ratio import Estimate
from mlxbatch.errors import SetupError, show
from mlxbatch.writers.files import write_outputs

FILE = "quality.json"
SCHEMA: Final = 1

Level = Literal["quick", "full", "none"]


@dataclass(frozen=True, slots=True)
class Weights:
    """A model's weights: `sha256` is that of models.identity, `bits_per_weight` counts scales and offsets."""

    bytes: int
    parameters: int
    bits_per_weight: float
    sha256: str


@dataclass(frozen=True, slots=True)
class LayerError:
    """How far one weight is from the original's: ||W - W'|| / ||W||, Frobenius. `bits` is None where it is plain."""

    layer: str
    error: float
    bits: int | None = None
    group_size: int | None = None
    mode: str | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """What both models were tried on. `sha256` is of the recordings and their texts; words are those of the texts."""

    name: str
    sha256: str
    clips: int
    seconds: float
    words: int


@dataclass(frozen=True, slots=True)
class Speed:
    """`seconds` for the calibration's `audio_seconds`, loading not counted; `peak_bytes` by MLX's own counter, weights
    included. `arithmetic` is what was computed with, which need not be what is stored."""

    seconds: float
    audio_seconds: float
    peak_bytes: int
    arithmetic: str

    @property
    def rtfx(self) -> float:
        return self.audio_seconds / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Divergence:
    """Of the converted model's next-token distributions from the original's, over `tokens`, in nats.

    `quantiles` has percent -> nats. `same_top` is the share of tokens whose likeliest next token is the same.
    """

    tokens: int
    mean: Estimate
    median: float
    quantiles: Mapping[str, float]
    largest: float
    same_top: Estimate


@dataclass(frozen=True, slots=True)
class Rates:
    original: float
    converted: float


@dataclass(frozen=True, slots=True)
class Recognition:
    """Both models' transcripts. `wer` and `cer` are against the texts, `wer_loss` the converted one's more, and None
    where no clip has a text. `changed` counts the clips whose normalized text differs between the models, `failed`
    those of which the converted one gave none. `decoding` and `forced` say how both were measured.
    """

    clips: int
    changed: int
    failed: int
    decoding: str
    wer: Rates | None = None
    cer: Rates | None = None
    wer_loss: Estimate | None = None
    divergence: Divergence | None = None
    forced: str | None = None


@dataclass(frozen=True, slots=True)
class Synthesis:
    """Both models' speech, of the same sentences with the same noise.

    `duration` is the converted one's seconds for each of the original's; `distance` the log-spectral distance of what
    both say at the same place, in dB; `likeness` the cosine of their speaker embeddings, None without an encoder.
    `wer` is that of what `heard_by` hears, `wer_loss` the converted one's more, of sentences of so many `words`.
    """

    sentences: int
    words: int
    voice: str
    duration: Estimate
    distance: float
    likeness: float | None = None
    heard_by: str | None = None
    wer: Rates | None = None
    wer_loss: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Separation:
    """What both models find in the same noisy speech: SI-SDR in dB, the mean over clips. `between` is of the converted
    one's output against the original's, `clean` of each against the speech that the noise was added to."""

    clips: int
    mixture: str
    between: float
    clean: Rates


@dataclass(frozen=True, slots=True)
class Quality:
    """A converted model beside its original. What is None was not measured; `not_measured` says what and why."""

    __pydantic_config__ = ConfigDict(ser_json_inf_nan="strings", extra="forbid")

    task: str
    architecture: str
    level: Level
    original: Weights
    converted: Weights
    origin: Origin | None = None
    dtype: str | None = None
    kept: Mapping[str, str] = field(default_factory=dict)
    layers: tuple[LayerError, ...] = ()
    calibration: Calibration | None = None
    recognition: Recognition | None = None
    synthesis: Synthesis | None = None
    separation: Separation | None = None
    speed_original: Speed | None = None
    speed_converted: Speed | None = None
    not_measured: tuple[str, ...] = ()
    made_with: Mapping[str, str] = field(default_factory=dict)
    schema: Literal[1] = SCHEMA

    @property
    def wer_loss(self) -> Estimate | None:
        """Of what it hears, or of what is heard of its speech."""
        heard = self.recognition or self.synthesis
        return heard.wer_loss if heard else None

    @property
    def words(self) -> int:
        """Of the texts that `wer_loss` is measured with."""
        if self.synthesis is not None:
            return self.synthesis.words
        return self.calibration.words if self.calibration else 0


def write(quality: Quality, directory: Path) -> Path:
    """Put quality.json into a directory, whole or not at all. Raises SetupError."""
    path = directory / FILE
    write_outputs({path: text(quality) + "\n"}, directory)
    return path


def text(quality: Quality, indent: int | None = 2) -> str:
    """The record as JSON, on one line where `indent` is None."""
    return _form().dump_json(quality, indent=indent).decode("utf-8")


def read(path: Path) -> Quality:
    """The record of a quality.json. Raises SetupError for one that cannot be read, or is of another version."""
    try:
        return _form().validate_json(path.read_bytes())
    except OSError as error:
        raise SetupError(f"{show(path)}: {error.strerror or error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        what = f"{where}: {first['msg']}" if where else first["msg"]
        raise SetupError(f"{show(path)}: no quality record of version {SCHEMA}: {show(what)}") from error


def find(directory: Path) -> Quality | None:
    """The record of a model's directory; None where it has none, or none that can be read."""
    try:
        return read(directory / FILE)
    except SetupError:
        return None


def _form() -> TypeAdapter[Quality]:
    return TypeAdapter(Quality)
