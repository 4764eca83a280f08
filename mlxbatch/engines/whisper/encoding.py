"""Windows encoded beside the decoder: a thread and a stream for each encoder call that runs at a time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import groupby

import mlx.core as mx

from mlxbatch.engines.whisper.slots import Sound
from mlxbatch.engines.whisper.windows import Window
from mlxbatch.types import Span

Encode = Callable[[mx.array], Sound]
"""Log-mels [n, frames, n_mels] to what the decoder hears of them."""


@dataclass(frozen=True)
class Encoded:
    """Windows and what is heard of them, in the same order; `entered` is when they were put in (time.monotonic)."""

    windows: list[Window]
    sound: Sound
    entered: float


@dataclass
class _Call:
    """One encoder call: windows of one length, of which the first `taken` are gone."""

    windows: list[Window]
    entered: float
    work: Future[Sound]
    taken: int = 0

    @property
    def left(self) -> list[Window]:
        return self.windows[self.taken :]


class EncodeAhead:
    """Encodes `rows` windows a call, `streams` calls at a time, and gives them back in the order they came in.

    Each stream has a thread of its own, on which its graphs are built and evaluated: MLX's streams belong to a thread,
    and graphs for two streams that one thread schedules often run one after the other (on the CPU MLX stops
    scheduling at ten unfinished tasks). Weights and features are evaluated, so all threads may read them.

    A window gets the same whatever the batch: calls never mix lengths, and a row does not see its neighbours.
    """

    def __init__(self, rows: int, streams: int) -> None:
        self._rows, self._device = rows, mx.default_device()
        self._calls: deque[_Call] = deque()
        self._spans: deque[Span] = deque()
        self._local = threading.local()
        self._pool = ThreadPoolExecutor(streams, "encode", self._open)
        self.done = 0  # calls: a sign of life for whoever waits
        self.room = rows * streams  # windows that keep all streams busy

    @property
    def windows(self) -> int:
        """How many are being encoded, or are, and were not taken."""
        return sum(len(call.left) for call in list(self._calls))

    def put(self, encode: Encode, windows: Sequence[Window], features: Sequence[mx.array]) -> None:
        """Windows and their log-mels [frames, n_mels], evaluated."""
        entered = time.monotonic()
        for _, same in groupby(zip(windows, features, strict=True), key=lambda pair: pair[1].shape[0]):
            stretch = list(same)
            for start in range(0, len(stretch), self._rows):
                some = stretch[start : start + self._rows]
                work = self._pool.submit(self._encode, encode, [mel for _, mel in some])
                self._calls.append(_Call([window for window, _ in some], entered, work))

    def take(self, most: int, *, wait: bool) -> Encoded | None:
        """The windows that are next in turn, at most so many of one call; None where they are not done, or none is.

        Raises what went wrong; its windows stay, for `withdraw`.
        """
        if not self._calls or not (wait or self._calls[0].work.done()):
            return None
        call = self._calls[0]
        sound, windows = call.work.result(), call.left[:most]
        found = Encoded(windows, sound.rows(call.taken, call.taken + len(windows)), call.entered)
        call.taken += len(windows)
        if not call.left:
            self._calls.popleft()
        return found

    def withdraw(self) -> list[Window]:
        """Give all windows back, encoded or not."""
        calls = list(self._calls)
        self._calls.clear()
        for call in calls:
            call.work.cancel()
        wait([call.work for call in calls])
        return [window for call in calls for window in call.left]

    def spans(self) -> list[Span]:
        """What was worked on since the last call."""
        return [self._spans.popleft() for _ in range(len(self._spans))]

    def close(self) -> None:
        self.withdraw()
        self._pool.shutdown()

    # ---- on the threads

    def _open(self) -> None:
        mx.set_default_device(self._device)
        self._local.stream = mx.new_stream(self._device)

    def _encode(self, encode: Encode, features: list[mx.array]) -> Sound:
        began = time.monotonic()
        with mx.stream(self._local.stream):
            sound = encode(mx.stack(features))
            mx.eval(sound.cross, sound.counts)
        self._spans.append(Span("encode", began, time.monotonic(), len(features)))
        self.done += 1
        return sound
