"""Decode a recording to mono float32 at the engine's rate, in blocks, and say what was wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from mlxbatch.chunks import DataChunk
from mlxbatch.errors import ItemError
from mlxbatch.probe import Forward, has_known_length, open_sound, plain_cause
from mlxbatch.types import Item, Recording

Samples = NDArray[np.float32]

# Frames per read. Memory follows what is really there, never what the header says.
_BLOCK = 8192
# A mix this far below its loudest channel is a mix of channels that cancel each other.
_CANCELLED_DB = -20.0
# Lengths that differ by less are not worth a warning: padding of codecs, a missing last byte.
_TOLERANCE_S = 0.1


@dataclass(slots=True)
class _Findings:
    """What came to light in one pass through the file.

    `power` is the sum of squares per channel, `mix` that of the mono signal; `stopped` is the decoder's word where it
    gave up before the end.
    """

    power: NDArray[np.float64]
    mix: float = 0.0
    peak: float = 0.0
    frames: int = 0
    non_finite: int = 0
    stopped: str | None = None
    parts: list[Samples] = field(default_factory=list)


def decode(item: Item, sample_rate: int = 16000) -> Recording:
    """Mono float32 samples in [-1, 1] at `sample_rate` Hz, shape [n], by soxr's high quality resampler.

    Channels are averaged; where they cancel each other (opposite phase) the loudest is taken instead. Samples that are
    not finite become 0, and a signal beyond full scale is scaled by its peak. A file that ends early is decoded as far
    as it goes and marked truncated. Each of these is said in `warnings`. Raises ItemError of stage "decode".
    """
    with open_sound(item.source, "decode") as (sound, chunk):
        findings = _decode_pass(sound, sample_rate, channel=None)
        if findings.stopped is not None and findings.frames == 0:
            raise ItemError(item.source, "decode", findings.stopped)
        truncation = _truncation(sound, chunk, findings)
        warnings = [truncation] if truncation else []
        is_float = sound.subtype in ("FLOAT", "DOUBLE")
    loudest = int(np.argmax(findings.power))
    loss = _mixing_loss(findings, loudest)
    if loss < _CANCELLED_DB:
        warnings.append(_cancelled(len(findings.power), loudest, loss))
        with open_sound(item.source, "decode") as (sound, _):
            findings = _decode_pass(sound, sample_rate, channel=loudest)
    if findings.non_finite:
        warnings.append(f"{findings.non_finite} samples that are not finite numbers were set to 0")
    if is_float and findings.peak > 1.0:
        warnings.append(f"samples up to {findings.peak:.4g}, beyond full scale (1.0): scaled down by that factor")
    return Recording(_joined(findings.parts), sample_rate, tuple(warnings), truncated=bool(truncation))


def _decode_pass(sound: Forward, sample_rate: int, channel: int | None) -> _Findings:
    """Read all there is; keep one mono signal at the target rate, whatever the number of channels."""
    findings = _Findings(np.zeros(sound.channels))
    same = sound.samplerate == sample_rate
    resampler = soxr.ResampleStream(sound.samplerate, sample_rate, 1, dtype="float32", quality="HQ")
    for block in _blocks(sound, findings):
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


def _blocks(sound: Forward, findings: _Findings) -> Iterator[Samples]:
    """Blocks of float32, shape [n, channels], up to the end or to where the decoder gives up."""
    while findings.stopped is None:
        # Filled with NaN, for soundfile does not say how much it had read when an error came up.
        block = np.full((_BLOCK, sound.channels), np.nan, np.float32)
        try:
            count = sound.buffer_read_into(block.data, dtype="float32")
        except (soundfile.SoundFileError, OSError) as error:
            findings.stopped = plain_cause(error)
            empty = np.isnan(block).all(axis=1)
            count = int(np.argmax(empty)) if empty.any() else len(block)
        if count == 0:
            return
        yield block[:count]


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


def _truncation(sound: Forward, chunk: DataChunk | None, findings: _Findings) -> str | None:
    """A warning when less was decoded than the header announces."""
    decoded = findings.frames / sound.samplerate
    announced = _announced(sound, chunk, findings.frames)
    if announced is None or announced - decoded <= _TOLERANCE_S:
        return None
    if announced == float("inf"):
        return "truncated: nothing is left of the sound that its header announces"
    # Its own "psf_fseek failed" only repeats that the end came too early.
    why = f" ({findings.stopped})" if findings.stopped and "psf_" not in findings.stopped else ""
    return f"truncated: {decoded:.2f} s decoded of the {announced:.2f} s in its header{why}"


def _announced(sound: Forward, chunk: DataChunk | None, frames: int) -> float | None:
    """Seconds that the header announces, or None where it does not say."""
    if chunk is not None and chunk.missing:
        claimed = chunk.claimed or 0
        if chunk.present and frames:
            return frames * claimed / chunk.present / float(sound.samplerate)
        return claimed / chunk.byte_rate if chunk.byte_rate else float("inf")
    if not has_known_length(sound):
        return None
    return float(sound.frames / sound.samplerate)


def _joined(parts: list[Samples]) -> Samples:
    """One array, scaled to [-1, 1] where it goes beyond: lossy codecs and resampling overshoot a little."""
    samples = np.concatenate(parts) if parts else np.zeros(0, np.float32)
    peak = float(np.abs(samples).max(initial=0.0))
    if peak > 1.0:
        samples /= np.float32(peak)
    return samples
