"""What flows through a run: frozen records, in the field's own terms, with no behaviour of their own.

Times are seconds from the start of the recording, sizes are bytes, samples are float32 in [-1, 1].
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Task = Literal["transcribe", "synthesize", "separate"]
# What is made of a recording's channels: one mix, each by itself, or one of them alone (counted from 0).
Channels = Literal["mix", "split"] | int


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is asked for one recording; None: what the run asks for. `speakers` names its channels, from the first."""

    language: str | None = None
    channels: Channels | None = None
    speakers: tuple[str, ...] | None = None
    prompt: str | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """One input and where its outputs go.

    `relpath` is the output path below the output root without the format's suffix: `a/b` becomes `a/b.txt`.
    """

    id: str
    source: Path
    relpath: Path
    task: Task = "transcribe"
    wishes: Wishes = field(default_factory=Wishes)


@dataclass(frozen=True, slots=True)
class Probed:
    """An item with what its header says; nothing has been decoded yet."""

    item: Item
    seconds: float
    sample_rate: int
    channels: int


@dataclass(frozen=True, slots=True)
class Planned:
    """A probed item in its place: `group` counts from 0, groups run in order, longest recordings first.

    `rows` is how many jobs become of it, one for each channel that is heard by itself.
    """

    probed: Probed
    group: int
    rows: int = 1


@dataclass(frozen=True, slots=True)
class Recording:
    """Decoded audio of one item: float32 samples, shape [tracks, n], at `sample_rate`.

    `channels` tells which channel of the file each track is, counted from 0; None is a mix.
    """

    samples: NDArray[np.float32]
    sample_rate: int
    channels: tuple[int | None, ...] = (None,)
    warnings: tuple[str, ...] = ()
    truncated: bool = False

    @property
    def seconds(self) -> float:
        return float(self.samples.shape[1] / self.sample_rate)


@dataclass(frozen=True, slots=True)
class TranscribeOptions:
    """What changes a transcript, and so belongs to the inference key.

    The temperature ladder and the three thresholds are those of Radford et al. 2022, "Robust Speech Recognition via
    Large-Scale Weak Supervision", section 4.5. `language` is a Whisper code, None means detect it per recording.
    `prompt` is text that comes before the recording, `hotwords` are words to be expected in it; `max_tokens` bounds a
    window's text (None: what the model can). `vad`: only speech is heard. `channels`: what becomes of several.
    `words`: each segment says when its words are spoken. `encoder_context`: whether the encoder of a Whisper gets a
    window as long as it is ("auto"), or 30 s whatever its length ("full").
    """

    language: str | None = None
    task: Literal["transcribe", "translate"] = "transcribe"
    temperatures: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    compression_ratio_threshold: float = 2.4
    logprob_threshold: float = -1.0
    no_speech_threshold: float = 0.6
    prompt: str = ""
    hotwords: tuple[str, ...] = ()
    max_tokens: int | None = None
    vad: bool = False
    channels: Channels = "mix"
    words: bool = False
    encoder_context: Literal["auto", "full"] = "auto"


@dataclass(frozen=True, slots=True)
class Job:
    """One decoded recording, or one channel of it, for an engine; `id` is unique in a run and follows plan order."""

    id: int
    item_id: str
    samples: NDArray[np.float32]
    seconds: float
    group: int = 0
    channel: int | None = None
    options: TranscribeOptions = field(default_factory=TranscribeOptions)


@dataclass(frozen=True, slots=True)
class Word:
    start: float
    end: float
    text: str
    probability: float


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of speech and its text. `avg_logprob` is the mean over the window's tokens, natural logarithm."""

    start: float
    end: float
    text: str
    words: tuple[Word, ...] = ()
    speaker: str | None = None
    channel: int | None = None
    avg_logprob: float = 0.0
    no_speech_prob: float = 0.0
    compression_ratio: float = 1.0
    temperature: float = 0.0


@dataclass(frozen=True, slots=True)
class WindowStats:
    """What one window took. `latency` is the time from entering a batch to leaving it, retries included.

    `cut`: its text was cut off at the limit of tokens, and what was said after that is missing.
    """

    start: float
    seconds: float
    tokens: int
    latency: float
    attempts: int = 1
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """One finished window of a job. `last` is True on the job's final output, whatever order they come in."""

    job_id: int
    window: int
    segments: tuple[Segment, ...]
    stats: WindowStats
    last: bool
    language: str | None = None


@dataclass(frozen=True, slots=True)
class JobFailed:
    """A job that its engine gave up; the others go on. `deadly`: it ended the engine's process, again and again."""

    job_id: int
    cause: str
    deadly: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """One stage's work on one batch, on the clock of `time.monotonic`: what a trace is made of."""

    stage: str
    begin: float
    end: float
    rows: int


@dataclass(frozen=True, slots=True)
class Resident:
    """The models on a device when one came or left last, the least recently used first; `bytes` of their weights."""

    models: tuple[str, ...] = ()
    bytes: int = 0
    loads: int = 0
    evictions: int = 0


@dataclass(frozen=True, slots=True)
class Readings:
    """Memory of the process that owns the device, in bytes, and the spans since the last readings.

    `active`, `cache` and `peak` are the framework's own counters (peak excludes the cache, and is that of the time
    since the last readings), `rss` is the process's. `live` rows are being worked on; `progress` counts the engine's
    steps, whatever they are: while it stands still, nothing happens. `shortages` counts the times that the device had
    no memory for what was asked.
    """

    active: int = 0
    cache: int = 0
    peak: int = 0
    rss: int = 0
    live: int = 0
    progress: int = 0
    shortages: int = 0
    spans: tuple[Span, ...] = ()
    resident: Resident = Resident()


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the governor allows: at most `rows` live rows, none beyond those that are live while it holds.

    With nothing live one row is always allowed: a job is done or fails, and is never waited for. Whenever `reclaims`
    grows, memory that is kept for reuse is given back.
    """

    rows: int
    hold: bool = False
    reclaims: int = 0


@dataclass(frozen=True, slots=True)
class Transcript:
    """All that is known of one recording's speech; every output format is rendered from it.

    `model` is the name of the one that heard it, "" where an older version did not write it down. `channels` are
    those that were heard one by one, as in Recording.
    """

    segments: tuple[Segment, ...]
    language: str | None
    seconds: float
    warnings: tuple[str, ...] = ()
    truncated: bool = False
    model: str = ""
    channels: tuple[int | None, ...] = (None,)

    @property
    def text(self) -> str:
        return " ".join(segment.text.strip() for segment in self.segments if segment.text.strip())


@dataclass(frozen=True, slots=True)
class Done:
    item: Item
    paths: tuple[Path, ...]
    seconds: float
    windows: tuple[WindowStats, ...] = ()
    warnings: tuple[str, ...] = ()
    took: float = 0.0  # seconds its windows spent in batches
    model: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """`quarantined`: it ended the engine's process again and again, and is passed over until it changes."""

    item: Item
    stage: str
    error: str
    quarantined: bool = False


@dataclass(frozen=True, slots=True)
class Skipped:
    """`quarantined`: it was given up in an earlier run, and is passed over."""

    item: Item
    why: str
    quarantined: bool = False


Result = Done | Failed | Skipped
