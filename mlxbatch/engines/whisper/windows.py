"""Windows of a recording: where one starts, what its tokens say, where the next one starts. No MLX."""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mlxbatch.encoder_context import WINDOW_FRAMES
from mlxbatch.types import Job, Segment, TranscribeOptions
from mlxbatch.vad.cuts import cut_from
from mlxbatch.vad.speech import Interval

SAMPLE_RATE = 16_000
FRAME_SAMPLES = 160  # a log-mel frame, 10 ms: the unit in which windows start
WINDOW_SAMPLES = WINDOW_FRAMES * FRAME_SAMPLES
FRAMES_PER_STAMP = 2  # a timestamp token counts 20 ms
WINDOW_STAMPS = WINDOW_FRAMES // FRAMES_PER_STAMP
SECONDS_PER_STAMP = 0.02
# A pause longer than this divides two windows. On two calls of 134 s, each channel by itself (Whisper base): without
# looking for speech a word error rate of 50 % and turns that begin 2.5 s (median) from where they do; with 1 s here
# 24 % and 0.16 s, with 2 s 24 % and 0.22 s; merged up to 30 s whatever the pause, 52 % and 0.29 s.
APART_SAMPLES = SAMPLE_RATE


@dataclass(frozen=True, eq=False)
class Window:
    """At most 30 s of a job, `cut` from its `speech` (samples); `index` counts the job's windows.

    `full`: to be encoded as 30 s whatever its length, because its text at its own length was doubtful; `rung` is where
    on the temperature ladder it goes on; `entered` is when it first entered a batch (time.monotonic).
    """

    job: Job
    cut: Interval
    speech: Sequence[Interval]
    index: int = 0
    language: str | None = None
    full: bool = False
    rung: int = 0
    entered: float | None = None
    samples: NDArray[np.float32] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "samples", self.job.samples[slice(*self.cut)])

    @property
    def start(self) -> float:
        """Seconds from the recording's start, as `end`."""
        return self.cut[0] / SAMPLE_RATE

    @property
    def end(self) -> float:
        return self.cut[1] / SAMPLE_RATE

    @property
    def end_stamp(self) -> int:
        """The last timestamp that the audio allows, in steps of 20 ms."""
        return math.ceil(len(self.samples) / (FRAME_SAMPLES * FRAMES_PER_STAMP))

    @property
    def frames(self) -> int:
        """Log-mel frames of its own."""
        return math.ceil(len(self.samples) / FRAME_SAMPLES)

    @property
    def at_full_context(self) -> bool:
        """Whether the encoder is to get 30 s whatever its length."""
        return self.full or self.job.options.encoder_context == "full"

    @property
    def order(self) -> tuple[int, int]:
        """Windows go in plan order: the earlier job first, so that the longest recordings never end a run."""
        return self.job.id, self.index

    def silent(self) -> bool:
        """Digital silence, in which there is nothing to hear and much to imagine."""
        return not np.any(self.samples)

    def seed(self, temperature: float, before: Sequence[int] = ()) -> int:
        """Where this window's random keys start: a function of its content, the temperature and the text before it."""
        digest = hashlib.blake2b(self.samples.tobytes(), digest_size=6)
        digest.update(f"{temperature:.3f}{''.join(f' {token}' for token in before)}".encode())
        return int.from_bytes(digest.digest(), "little")

    def times(self, piece: Piece) -> tuple[float, float]:
        """When a piece of its text begins and ends in the recording, in seconds."""
        start, end = (self.start + stamp * SECONDS_PER_STAMP for stamp in (piece.start, piece.end))
        return min(start, self.end), min(end, self.end)

    def following(self, advance: int, language: str | None) -> Window | None:
        """The window `advance` frames on; None where nobody speaks after that."""
        start, end = self.cut
        at = min(start + advance * FRAME_SAMPLES, end)
        return window_from(self.job, self.speech, at, self.index + 1, language)


def window_from(
    job: Job, speech: Sequence[Interval], at: int = 0, index: int = 0, language: str | None = None
) -> Window | None:
    """The next window of a job's speech from sample `at` on; None where there is none."""
    cut = cut_from(speech, at, WINDOW_SAMPLES, APART_SAMPLES)
    return None if cut is None else Window(job, cut, speech, index, language)


@dataclass(frozen=True, slots=True)
class Piece:
    """Text tokens between two times, in steps of 20 ms from the window's start."""

    start: int
    end: int
    tokens: list[int]


def pieces(tokens: Sequence[int], timestamp_begin: int, end_stamp: int) -> tuple[list[Piece], int]:
    """What a window's tokens say, and by how many steps of 20 ms to go on from its start.

    openai/whisper `transcribe`: segments end at pairs of timestamps. A text that breaks off after a pair is left for
    the next window, which starts at that pair; with a single timestamp at the end, or none, the whole window is done.
    """
    stamped = [token >= timestamp_begin for token in tokens]
    cuts = [i + 1 for i, (a, b) in enumerate(pairwise(stamped)) if a and b]
    if not cuts:
        return [_whole(tokens, stamped, timestamp_begin, end_stamp)] if tokens else [], WINDOW_STAMPS
    complete = stamped[-2:] == [False, True]
    if complete:
        cuts.append(len(tokens))
    found = [_between(tokens[a:b], timestamp_begin) for a, b in pairwise([0, *cuts])]
    return found, WINDOW_STAMPS if complete else max(1, found[-1].end)


def _whole(tokens: Sequence[int], stamped: list[bool], timestamp_begin: int, end_stamp: int) -> Piece:
    stamps = [token - timestamp_begin for token, is_stamp in zip(tokens, stamped, strict=True) if is_stamp]
    start = stamps[0] if stamped[0] else 0
    end = stamps[-1] if stamps and stamps[-1] > start else end_stamp
    return Piece(start, end, [token for token in tokens if token < timestamp_begin])


def _between(tokens: Sequence[int], timestamp_begin: int) -> Piece:
    text = [token for token in tokens if token < timestamp_begin]
    return Piece(tokens[0] - timestamp_begin, tokens[-1] - timestamp_begin, text)


def telling(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Those that say something, and take time for it."""
    return tuple(segment for segment in segments if segment.text and segment.end > segment.start)


def compression_ratio(text: str) -> float:
    """Bytes of the text over its zlib size: loops compress well (Radford et al. 2022, section 4.5)."""
    data = text.encode("utf-8")
    return len(data) / len(zlib.compress(data))


def is_silence(
    no_speech_prob: float, avg_logprob: float, options: TranscribeOptions, echo: Callable[[], bool] = lambda: False
) -> bool:
    """No speech, as the paper judges it: the model says so, and is unsure of what it wrote, or echoes its prompt."""
    return no_speech_prob > options.no_speech_threshold and (avg_logprob < options.logprob_threshold or echo())


def needs_retry(ratio: float, avg_logprob: float, options: TranscribeOptions) -> bool:
    """Whether the text loops or is too unlikely, and the next temperature should be tried."""
    return ratio > options.compression_ratio_threshold or avg_logprob < options.logprob_threshold
