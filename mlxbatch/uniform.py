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
_TOLD = 3  # changes that are told one by one


def uniform(
    blocks: Iterable[tuple[Samples, int]], sample_rate: int, channels: int, notes: list[str]
) -> Iterator[Samples]:
    """(block [n, any channels], its rate in Hz) -> blocks [n, channels] at `sample_rate`; `notes` is told of changes.

    Mono goes to all channels, the mean of several to a mono one; of other counts the first are kept, and channels that
    are missing are silent.
    """
    shape, resampler = (sample_rate, channels), None
    frames, changes = 0, 0
    for block, rate in blocks:
        if (rate, block.shape[1]) != shape:
            rest = _rest(resampler, channels)
            frames, changes = frames + len(rest), changes + 1
            _note(changes, shape, (rate, block.shape[1]), frames / sample_rate, notes)
            yield rest
            shape = (rate, block.shape[1])
            resampler = None if rate == sample_rate else soxr.ResampleStream(rate, sample_rate, channels, "float32")
        block = _fitted(block, channels)
        if resampler is not None:
            block = resampler.resample_chunk(block)
        frames += len(block)
        yield block
    yield _rest(resampler, channels)


def _rest(resampler: soxr.ResampleStream | None, channels: int) -> Samples:
    """What a resampler still holds."""
    nothing = np.zeros((0, channels), np.float32)
    rest: Samples = nothing if resampler is None else resampler.resample_chunk(nothing, last=True)
    return rest


def _note(number: int, before: tuple[int, int], after: tuple[int, int], seconds: float, notes: list[str]) -> None:
    if number <= _TOLD:
        changes = zip(("sample rate", "number of channels"), before, after, strict=True)
        what = " and ".join(f"the {name} changes from {old} to {new}" for name, old, new in changes if old != new)
        notes.append(f"{what} at {seconds:.2f} s")
    elif number == _TOLD + 1:
        notes.append("it goes on changing its sample rate or channels")


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
