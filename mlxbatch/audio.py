"""Decode a recording to float32 at the engine's rate, mixed or by channel, in blocks; say what was wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import soxr
from numpy.typing import NDArray

from mlxbatch.appended import NOTE, goes_on
from mlxbatch.errors import ItemError, item_stage
from mlxbatch.headerless import DEFAULTS, Rules
from mlxbatch.mixing import (
    CANCELLED_DB,
    beyond_full_scale,
    cancelled,
    mixing_loss,
    not_finite,
    silence_non_finite,
    taken_from,
)
from mlxbatch.source import Samples, Source, open_source
from mlxbatch.tracks import voices
from mlxbatch.types import Channels, Item, Recording
from mlxbatch.wishes import no_such_channel


@dataclass(slots=True)
class _Findings:
    """What came to light in one pass through the file.

    `power` is the sum of squares per channel, `mix` that of the tracks, `parts` are blocks of shape [n, tracks].
    """

    power: NDArray[np.float64]
    mix: float = 0.0
    peak: float = 0.0
    frames: int = 0
    non_finite: int = 0
    parts: list[Samples] = field(default_factory=list)


def decode(item: Item, sample_rate: int = 16000, channels: Channels = "mix", rules: Rules = DEFAULTS) -> Recording:
    """Float32 samples in [-1, 1] at `sample_rate` Hz, shape [tracks, n], by soxr's high quality resampler.

    "mix" averages the channels to one track; where they cancel each other (opposite phase) the loudest is taken
    instead. "split" makes a track of each, see `tracks.voices`; a number takes that channel alone. Samples that are
    not finite become 0, and a signal beyond full scale is scaled by its peak, all tracks by the same. A file that ends
    early is decoded as far as it goes and marked truncated. Each of these is said in `warnings`. `rules` are for
    recordings without a header. Raises ItemError of stage "decode", also where there is no channel of that number.
    """
    with open_source(item.source, "decode", rules) as source:
        if isinstance(channels, int) and channels >= source.channels:
            raise ItemError(item.source, "decode", no_such_channel(channels, source.channels))
        findings = _decode_pass(source, sample_rate, channels)
        if source.stopped is not None and findings.frames == 0:
            raise ItemError(item.source, "decode", source.stopped)
        truncation = source.truncation(findings.frames)
        warnings = [*([truncation] if truncation else []), *source.notes]
        with item_stage(item.source, "decode"):
            warnings += [NOTE] if goes_on(item.source) else []
        is_float = source.is_float
    loudest = int(np.argmax(findings.power))
    loss = mixing_loss(findings.power, findings.mix) if channels == "mix" else 0.0
    if loss < CANCELLED_DB:
        warnings.append(cancelled(len(findings.power), loudest, loss))
        with open_source(item.source, "decode", rules) as source:
            findings = _decode_pass(source, sample_rate, loudest)
    if findings.non_finite:
        warnings.append(not_finite(findings.non_finite))
    if is_float and findings.peak > 1.0:
        warnings.append(beyond_full_scale(findings.peak))
    samples, numbers, found = _tracks(findings.parts, len(findings.power), channels, sample_rate)
    return Recording(samples, sample_rate, numbers, (*warnings, *found), bool(truncation))


def _decode_pass(source: Source, sample_rate: int, channels: Channels) -> _Findings:
    """Read all there is; keep the tracks at the target rate, and nothing of channels that are not asked for."""
    findings = _Findings(np.zeros(source.channels))
    tracks = source.channels if channels == "split" else 1
    same = source.sample_rate == sample_rate
    resampler = soxr.ResampleStream(source.sample_rate, sample_rate, tracks, dtype="float32", quality="HQ")
    for block in source.blocks():
        findings.frames += len(block)
        findings.non_finite += silence_non_finite(block)
        findings.power += np.einsum("nc,nc->c", block, block, dtype=np.float64)
        taken = taken_from(block, channels)
        findings.mix += float(np.einsum("nt,nt->", taken, taken, dtype=np.float64))
        findings.peak = max(findings.peak, float(np.abs(taken).max()))
        findings.parts.append(taken if same else resampler.resample_chunk(taken))
    if not same:
        findings.parts.append(resampler.resample_chunk(np.zeros((0, tracks), np.float32), last=True))
    return findings


def _tracks(
    parts: list[Samples], there: int, channels: Channels, sample_rate: int
) -> tuple[Samples, tuple[int | None, ...], Sequence[str]]:
    """The samples, shape [tracks, n], which channel each track is, and what is to be said of them."""
    if channels == "mix":
        return _joined(parts, 1), (None,), ()
    if isinstance(channels, int):
        return _joined(parts, 1), (channels,), ()
    samples = _joined(parts, there)
    kept, warnings = voices(samples, sample_rate)
    return samples[:kept], tuple(range(kept)), warnings


def _joined(parts: list[Samples], tracks: int) -> Samples:
    """One array, scaled to [-1, 1] where it goes beyond: lossy codecs and resampling overshoot a little."""
    samples = np.empty((tracks, sum(len(part) for part in parts)), np.float32)
    end = 0
    for part in parts:
        samples[:, end : end + len(part)] = part.T
        end += len(part)
    peak = max(float(samples.max(initial=0.0)), -float(samples.min(initial=0.0)))
    if peak > 1.0:
        samples /= np.float32(peak)
    return samples
