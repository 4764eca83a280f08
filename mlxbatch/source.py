"""Sound files from front to back, in blocks: what they hold, where they stop, what their headers promised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
import soundfile
from numpy.typing import NDArray

from mlxbatch.chunks import DataChunk
from mlxbatch.probe import Forward, has_known_length, open_sound, plain_cause

Samples = NDArray[np.float32]

# Frames per read. Memory follows what is really there, never what the header says.
_BLOCK = 8192
# Lengths that differ by less are not worth a warning: padding of codecs, a missing last byte.
_TOLERANCE_S = 0.1


class Source(Protocol):
    """Sound that is read once. `stopped` is the decoder's word where it gave up before the end."""

    sample_rate: int
    channels: int
    is_float: bool  # whether samples beyond full scale can be in the file itself
    stopped: str | None

    def blocks(self) -> Iterator[Samples]:
        """Blocks of float32, shape [n, channels], up to the end or to where the decoder gives up."""
        ...

    def truncation(self, frames: int) -> str | None:
        """A warning when `frames`, all that were read, are less than the header announces."""
        ...


@contextmanager
def open_source(path: Path, stage: str) -> Iterator[Source]:
    """The sound of a file. Raises ItemError of the given stage."""
    with open_sound(path, stage) as (sound, chunk):
        yield SoundFileSource(sound, chunk)


class SoundFileSource:
    """What libsndfile reads."""

    def __init__(self, sound: Forward, chunk: DataChunk | None) -> None:
        self._sound, self._chunk = sound, chunk
        self.sample_rate: int = sound.samplerate
        self.channels: int = sound.channels
        self.is_float: bool = sound.subtype in ("FLOAT", "DOUBLE")
        self.stopped: str | None = None

    def blocks(self) -> Iterator[Samples]:
        while self.stopped is None:
            # Filled with NaN, for soundfile does not say how much it had read when an error came up.
            block = np.full((_BLOCK, self._sound.channels), np.nan, np.float32)
            try:
                count = self._sound.buffer_read_into(block.data, dtype="float32")
            except (soundfile.SoundFileError, OSError) as error:
                self.stopped = plain_cause(error)
                empty = np.isnan(block).all(axis=1)
                count = int(np.argmax(empty)) if empty.any() else len(block)
            if count == 0:
                return
            yield block[:count]

    def truncation(self, frames: int) -> str | None:
        decoded = frames / self.sample_rate
        announced = self._announced(frames)
        if announced is None or announced - decoded <= _TOLERANCE_S:
            return None
        if announced == float("inf"):
            return "truncated: nothing is left of the sound that its header announces"
        # Its own "psf_fseek failed" only repeats that the end came too early.
        why = f" ({self.stopped})" if self.stopped and "psf_" not in self.stopped else ""
        return f"truncated: {decoded:.2f} s decoded of the {announced:.2f} s in its header{why}"

    def _announced(self, frames: int) -> float | None:
        """Seconds that the header announces, or None where it does not say."""
        chunk = self._chunk
        if chunk is not None and chunk.missing:
            claimed = chunk.claimed or 0
            if chunk.present and frames:
                return frames * claimed / chunk.present / self.sample_rate
            return claimed / chunk.byte_rate if chunk.byte_rate else float("inf")
        if not has_known_length(self._sound):
            return None
        return float(self._sound.frames / self.sample_rate)
