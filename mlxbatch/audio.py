"""Decode a recording to mono float32 at the engine's rate, in blocks, and say what was wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import soxr
from numpy.typing import NDArray

from mlxbatch.errors import ItemError
from mlxbatch.headerless import DEFAULTS, Rules
from mlxbatch.source import Samples, Source, open_source
from mlxbatch.types import Item, Recording

# A mix this far below its loudest channel is a mix of channels that cancel each other.
_CANCELLED_DB = -20.0


@dataclass(slots=True)
class _Findings:
    """What came to light in one pass through the file.

    `power` is the sum of squares per channel, `mix` that of the mono signal.
    """

    power: NDArray[np.float64]
    mix: float = 0.0
    peak: float = 0.0
    frames: int = 0
    non_finite: int = 0
    parts: list[Samples] = field(default_factory=list)


def decode(item: Item, sample_rate: int = 16000, rules: Rules = DEFAULTS) -> Recording:
    """One mono track of float32 samples in [-1, 1] at `sample_rate` Hz, shape [1, n], by soxr's high quality resampler.

    Channels are averaged; where they cancel each other (opposite phase) the loudest is taken instead. Samples that are
    not finite become 0, and a signal beyond full scale is scaled by its peak. A file that ends early is decoded as far
    as it goes and marked truncated. Each of these is said in `warnings`. `rules` are for
    recordings without a header. Raises ItemError of stage "decode".
    """
    with open_source(item.source, "decode", rules) as source:
        findings = _decode_pass(source, sample_rate, channel=None)
        if source.stopped is not None and findings.frames == 0:
            raise ItemError(item.source, "decode", source.stopped)
        truncation = source.truncation(findings.frames)
        warnings = [*([truncation] if truncation else []), *source.notes]
        is_float = source.is_float
    loudest = int(np.argmax(findings.power))
    loss = _mixing_loss(findings, loudest)
    if loss < _CANCELLED_DB:
        warnings.append(_cancelled(len(findings.power), loudest, loss))
        with open_source(item.source, "decode", rules) as source:
            findings = _decode_pass(source, sample_rate, channel=loudest)
    if findings.non_finite:
        warnings.append(f"{findings.non_finite} samples that are not finite numbers were set to 0")
    if is_float and findings.peak > 1.0:
        warnings.append(f"samples up to {findings.peak:.4g}, beyond full scale (1.0): scaled down by that factor")
    return Recording(_joined(findings.parts)[None], sample_rate, warnings=tuple(warnings), truncated=bool(truncation))


def _decode_pass(source: Source, sample_rate: int, channel: int | None) -> _Findings:
    """Read all there is; keep one mono signal at the target rate, whatever the number of channels."""
    findings = _Findings(np.zeros(source.channels))
    same = source.sample_rate == sample_rate
    resampler = soxr.ResampleStream(source.sample_rate, sample_rate, 1, dtype="float32", quality="HQ")
    for block in source.blocks():
        findings.frames += len(block)
        findings.non_finite += _silence_non_finite(block)
        findings.power += np.einsum("nc,nc->c", block, block, dtype=np.float64)
        mono = _mono(block, channel)
        findings.mix += float(np.einsum("n,n->", mono, mono, dtype=np.float64))
        findings.peak = max(findings.peak, float(np.abs(mono).max()))
        findings.parts.append(mono if same else resampler.resample_chunk(mono))
    if not same:
        findings.parts.append(resampler.resample_chunk(np.zeros(0, np.float32), last=True))
    return findings


def _mono(block: Samples, channel: int | None) -> Samples:
    """One channel of a block, or the mean of all, summed in float64 since garbage near the top of float32 overflows."""
    if channel is None and block.shape[1] > 1:
        mixed: Samples = block.mean(axis=1, dtype=np.float64).astype(np.float32)
        return mixed
    return np.ascontiguousarray(block[:, channel or 0])


def _silence_non_finite(block: Samples) -> int:
    finite = np.isfinite(block)
    if finite.all():
        return 0
    block[~finite] = 0.0
    return int(block.size - np.count_nonzero(finite))


def _mixing_loss(findings: _Findings, loudest: int) -> float:
    """Level of the mono mix against the loudest channel, in dB; 0 for mono and for silence."""
    power = float(findings.power[loudest])
    if len(findings.power) == 1 or power == 0.0:
        return 0.0
    return 10.0 * float(np.log10(max(findings.mix / power, 1e-20)))


def _cancelled(channels: int, loudest: int, loss: float) -> str:
    return (
        f"the {channels} channels cancel each other when mixed (the mix is {-loss:.0f} dB below channel {loudest + 1}, "
        f"opposite phase?): channel {loudest + 1} alone was taken"
    )


def _joined(parts: list[Samples]) -> Samples:
    """One array, scaled to [-1, 1] where it goes beyond: lossy codecs and resampling overshoot a little."""
    samples = np.concatenate(parts) if parts else np.zeros(0, np.float32)
    peak = float(np.abs(samples).max(initial=0.0))
    if peak > 1.0:
        samples /= np.float32(peak)
    return samples
