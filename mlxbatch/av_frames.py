"""PyAV's frames as blocks of float32, each at its time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import av
import numpy as np

from mlxbatch.plausible import BYTES_PER_SECOND
from mlxbatch.uniform import Samples, without_garbage

# Containers whose time stamps say when sound is to be heard; the others' are only counted up.
_TIME_STAMPED = frozenset({"matroska,webm", "mov,mp4,m4a,3gp,3g2,mj2", "mpegts"})
_GAP_S = 0.5
_BLOCK = 8192
_MOST_PLANES = 8
_SCALES = {"u8": 2.0**-7, "s16": 2.0**-15, "s32": 2.0**-31, "flt": 1.0, "dbl": 1.0}


class Gaps:
    """Where the time stamps of a container leave sound out: a caller was muted, packets were lost, a video begins mute.

    Without silence in its place, all that follows would come too early. Small differences are left alone.
    """

    def __init__(self, container: Any) -> None:
        self._end = (container.start_time or 0) / 1e6
        known = container.format.name in _TIME_STAMPED and container.duration
        # A damaged time stamp shall not make silence without end.
        self._left = min(container.duration / 1e6, container.size / BYTES_PER_SECOND) if known else 0.0

    def before(self, frame: Any) -> Iterator[Samples]:
        """Blocks of silence that belong before this frame, at its rate and of its channels."""
        at = self._end if frame.pts is None else float(frame.pts * frame.time_base)
        gap = at - self._end if _GAP_S < at - self._end <= self._left else 0.0
        self._left -= gap
        self._end += gap + frame.samples / frame.sample_rate
        silence = round(gap * frame.sample_rate)
        for start in range(0, silence, _BLOCK):
            yield np.zeros((min(_BLOCK, silence - start), frame.layout.nb_channels), np.float32)


class Packing:
    """Frames whose channels lie apart, eight or more of them, with their channels together.

    PyAV looks for the end of a frame's planes beyond the eighth, where there may be anything.
    """

    def __init__(self) -> None:
        self._of: tuple[object, ...] = ()
        self._resampler: Any = None

    def __call__(self, frames: Iterable[Any]) -> Iterator[Any]:
        for frame in frames:
            if not frame.format.is_planar or frame.layout.nb_channels < _MOST_PLANES:
                yield frame
                continue
            of = (frame.format.name, frame.layout.name, frame.sample_rate)
            if of != self._of:
                self._of = of
                self._resampler = av.AudioResampler(frame.format.packed, frame.layout, frame.sample_rate)
            yield from self._resampler.resample(frame)


def floats(frame: Any) -> Samples:
    """A frame's samples as float32, shape [n, channels]; full scale of whole numbers is 1."""
    samples = frame.to_ndarray()
    channels = frame.layout.nb_channels
    samples = samples.T if frame.format.is_planar else samples.reshape(-1, channels)
    kind = frame.format.name.removesuffix("p")
    if kind == "u8":
        samples = samples.astype(np.int16) - 128
    # A double beyond float32 becomes infinite, signalling NaNs stay NaN: both are found later.
    with np.errstate(over="ignore", invalid="ignore"):
        scaled: Samples = samples.astype(np.float32) * np.float32(_SCALES[kind])
    return without_garbage(np.ascontiguousarray(scaled))
