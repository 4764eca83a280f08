"""Blocks of sound that may change their sample rate or channels on the way, as blocks of one rate and channel count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import soxr
from numpy.typing import NDArray

from mlxbatch.plausible import LARGEST_FLOAT

Samples = NDArray[np.float32]

# Frames to a block: codecs give a few hundred at a time, and each block costs its receiver the same.
_BLOCK = 8192


def uniform(
    blocks: Iterable[tuple[Samples, int]], sample_rate: int, channels: int, notes: list[str]
) -> Iterator[Samples]:
    """(block [n, any channels], its rate in Hz) -> blocks [n, channels] at `sample_rate`; `notes` is told of changes.

    Mono goes to all channels, the mean of several to a mono one; of other counts the first are kept, and channels that
    are missing are silent.
    """
    shape, frames, resampler = (sample_rate, channels), 0, None
    for block, rate in blocks:
        if (rate, block.shape[1]) != shape:
            notes.append(_change(shape, (rate, block.shape[1]), frames / sample_rate))
            if resampler is not None:
                yield resampler.resample_chunk(np.zeros((0, channels), np.float32), last=True)
            shape = (rate, block.shape[1])
            resampler = None if rate == sample_rate else soxr.ResampleStream(rate, sample_rate, channels, "float32")
        block = _fitted(block, channels)
        if resampler is not None:
            block = resampler.resample_chunk(block)
        frames += len(block)
        yield block
    if resampler is not None:
        yield resampler.resample_chunk(np.zeros((0, channels), np.float32), last=True)


def without_garbage(block: Samples) -> Samples:
    """Floats that cannot be sound become NaN: one would make all else silent when it is scaled, or overflow."""
    garbage = np.abs(block) > LARGEST_FLOAT
    if garbage.any():
        block[garbage] = np.nan
    return block


def _fitted(block: Samples, channels: int) -> Samples:
    there = block.shape[1]
    if there == channels:
        return block
    if there == 1:
        return np.repeat(block, channels, axis=1)
    if channels == 1:
        mixed: Samples = block.mean(axis=1, keepdims=True, dtype=np.float64).astype(np.float32)
        return mixed
    return np.pad(block[:, :channels], ((0, 0), (0, max(0, channels - there))))


def _change(before: tuple[int, int], after: tuple[int, int], seconds: float) -> str:
    changes = zip(("sample rate", "number of channels"), before, after, strict=True)
    what = " and ".join(f"the {name} changes from {old} to {new}" for name, old, new in changes if old != new)
    return f"{what} at {seconds:.2f} s"


def gathered(blocks: Iterable[Samples]) -> Iterator[Samples]:
    """The same samples in blocks of about 8,192 frames; empty ones are left out."""
    waiting: list[Samples] = []
    frames = 0
    for block in blocks:
        if len(block):
            waiting.append(block)
            frames += len(block)
        if frames >= _BLOCK:
            yield np.concatenate(waiting)
            waiting, frames = [], 0
    if waiting:
        yield np.concatenate(waiting)
