"""A recording from front to back, at the engine's rate: its tracks block by block, and what was wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import soxr
from numpy.typing import NDArray

from mlxbatch.appended import NOTE, goes_on
from mlxbatch.errors import ItemError, item_stage
from mlxbatch.headerless import Rules
from mlxbatch.mixing import (
    CANCELLED_DB,
    beyond_full_scale,
    cancelled,
    mixing_loss,
    not_finite,
    silence_non_finite,
    taken_from,
)
from mlxbatch.source import STANDARD_INPUT, Samples, Source, open_source, open_standard_input
from mlxbatch.tracks import voices
from mlxbatch.types import Channels, Item
from mlxbatch.wishes import no_such_channel

Tracks = tuple[NDArray[np.float32], tuple[int | None, ...]]
"""Samples [tracks, n], and which channel of the file each track is (None: a mix)."""


@contextmanager
def open_sound(item: Item, sample_rate: int, channels: Channels, rules: Rules) -> Iterator[Sound]:
    """The sound of a file, or of standard input, at `sample_rate` Hz. Raises ItemError of stage "decode"."""
    piped = item.source == STANDARD_INPUT
    with open_standard_input("decode") if piped else open_source(item.source, "decode", rules) as source:
        if isinstance(channels, int) and channels >= source.channels:
            raise ItemError(item.source, "decode", no_such_channel(channels, source.channels))
        yield Sound(item, source, sample_rate, channels)


class Sound:
    """What `audio.decode` makes of a whole recording, made of it bit by bit.

    What that says of the whole can be said of a piece only: whether the channels cancel each other, which of them has a
    voice of its own, and by what samples beyond full scale are scaled.
    """

    def __init__(self, item: Item, source: Source, sample_rate: int, channels: Channels) -> None:
        self._item, self._source, self._rate, self._channels = item, source, sample_rate, channels
        self._frames = self._non_finite = 0
        self._peak = 0.0
        self._notes: dict[str, str] = {}  # the first of each kind

    def blocks(self) -> Iterator[Samples]:
        """Blocks [n, columns] at the rate asked for; of a mix all channels follow it, for it may come to nothing."""
        mixes = self._channels == "mix" and self._source.channels > 1
        columns = 1 if isinstance(self._channels, int) else self._source.channels + mixes
        same = self._source.sample_rate == self._rate
        resampler = soxr.ResampleStream(self._source.sample_rate, self._rate, columns, dtype="float32", quality="HQ")
        for block in self._source.blocks():
            self._frames += len(block)
            self._non_finite += silence_non_finite(block)
            taken = taken_from(block, self._channels)
            self._peak = max(self._peak, float(np.abs(taken).max()))
            taken = np.concatenate([taken, block], axis=1) if mixes else taken
            yield taken if same else resampler.resample_chunk(taken)
        if not same:
            yield resampler.resample_chunk(np.zeros((0, columns), np.float32), last=True)
        if self._source.stopped is not None and not self._frames:
            raise ItemError(self._item.source, "decode", self._source.stopped)

    def heard(self, piece: Samples) -> Tracks:
        """What is to be heard of a piece [n, columns] of the blocks."""
        columns = np.ascontiguousarray(piece.T)
        samples, numbers = self._tracks(columns)
        peak = max(float(samples.max(initial=0.0)), -float(samples.min(initial=0.0)))
        return (samples / np.float32(peak) if peak > 1.0 else samples), numbers

    def _tracks(self, columns: NDArray[np.float32]) -> Tracks:
        if isinstance(self._channels, int):
            return columns, (self._channels,)
        if self._channels == "mix":
            return self._mix(columns)
        kept, said = voices(columns, self._rate)
        if kept < len(columns):  # that one channel has no voice in a piece is no news: the other one speaks
            self._notes.setdefault("voices", said[0])
        return columns[:kept], tuple(range(kept))

    def _mix(self, columns: NDArray[np.float32]) -> Tracks:
        """The mix, or the loudest channel where the channels cancel each other."""
        mix, channels = columns[:1], columns[1:]
        if not len(channels):
            return mix, (None,)
        power = np.einsum("cn,cn->c", channels, channels, dtype=np.float64)
        loss = mixing_loss(power, float(np.einsum("cn,cn->", mix, mix, dtype=np.float64)))
        if loss >= CANCELLED_DB:
            return mix, (None,)
        loudest = int(np.argmax(power))
        self._notes.setdefault("cancelled", cancelled(len(channels), loudest, loss))
        return channels[loudest : loudest + 1], (None,)

    def warnings(self) -> list[str]:
        """What the user should know, once all blocks are read."""
        truncation = self._source.truncation(self._frames)
        said = [truncation] if truncation else []
        said += self._source.notes
        if self._item.source != STANDARD_INPUT:
            with item_stage(self._item.source, "decode"):
                said += [NOTE] if goes_on(self._item.source) else []
        said += self._notes.values()
        said += [not_finite(self._non_finite)] if self._non_finite else []
        return said + ([beyond_full_scale(self._peak)] if self._source.is_float and self._peak > 1.0 else [])
