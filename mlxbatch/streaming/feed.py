"""The pieces of recordings as jobs for the engine, in order, read as they are needed: a bounded few ahead."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from mlxbatch.errors import ItemError, item_stage
from mlxbatch.headerless import DEFAULTS, Rules
from mlxbatch.source import STANDARD_INPUT
from mlxbatch.streaming.order import Heard, Order, Piece
from mlxbatch.streaming.pieces import FIRST, FOLLOWING, Length, Samples, pieces
from mlxbatch.streaming.sound import Sound, Tracks, open_sound
from mlxbatch.types import Failed, Item, Job, JobFailed, Output, TranscribeOptions


@dataclass(frozen=True, slots=True)
class Reading:
    """How recordings are read: at `sample_rate` Hz, at most `ahead` seconds more than the engine is done with.

    `options_for` says what is asked of each. With `one_language` the first one that is detected in a track of a
    recording holds for all of the track. `length` is that of all pieces but a recording's first.
    """

    options_for: Callable[[Item], TranscribeOptions]
    sample_rate: int = 16_000
    ahead: float = 240.0
    one_language: bool = True
    length: Length = FOLLOWING
    headerless: Rules = field(default_factory=lambda: DEFAULTS)


@dataclass(slots=True)
class _Recording:
    """A recording under way: what is asked of it, and the language of each of its channels that is known."""

    item: Item
    options: TranscribeOptions
    languages: dict[int | None, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece that is decoded, before it is jobs."""

    recording: _Recording
    start: float
    seconds: float
    tracks: Tracks


@dataclass(frozen=True, slots=True)
class _Active:
    """A job that the engine has."""

    recording: _Recording
    channel: int | None
    piece: Piece


class Feed:
    """The jobs (engines.base.Jobs) of a stream. `order` hears of each piece before its jobs are given out.

    A piece waits while so much is ahead of it, and, where the language is to be detected, until each of its tracks has
    one or has said nothing so far: as a recording's windows do in the engine.
    """

    def __init__(self, items: Sequence[Item], reading: Reading, order: Order) -> None:
        self._reading, self._order = reading, order
        self._changed = threading.Condition()
        self._closed = False
        self._active: dict[int, _Active] = {}
        self._waiting: deque[Job] = deque()  # the tracks of a piece that has begun
        self._parts = self._read(items)
        self._next: _Part | None = None
        self._number = 0

    # ---- for the engine's side

    def __iter__(self) -> Iterator[Job]:
        return self

    def __next__(self) -> Job:
        while not self._waiting:
            part = self._decoded()
            if part is None:
                raise StopIteration
            with self._changed:
                self._changed.wait_for(lambda part=part: self._closed or self._may_begin(part))  # type: ignore[misc]
                if self._closed:
                    raise StopIteration
                self._begin(part)
        return self._waiting.popleft()

    def ready(self) -> bool:
        """Whether `next()` would return, or end, without waiting for the engine."""
        if self._waiting or self._closed:
            return True
        part = self._decoded()
        with self._changed:
            return part is None or self._may_begin(part)

    def _decoded(self) -> _Part | None:
        """The next piece; None where there is none any more."""
        if self._next is None and not self._closed:
            self._next = next(self._parts, None)
        return self._next

    def _may_begin(self, part: _Part) -> bool:
        ahead = sum({id(one.piece): one.piece.seconds for one in self._active.values()}.values())
        if self._active and ahead + part.seconds > self._reading.ahead:
            return False
        return all(self._is_settled(part.recording, channel) for channel in part.tracks[1])

    def _is_settled(self, recording: _Recording, channel: int | None) -> bool:
        """Whether it is known in which language a track is to be heard, or that this is for the engine to say."""
        if not self._reading.one_language or recording.options.language or channel in recording.languages:
            return True
        return not any(one.recording is recording and one.channel == channel for one in self._active.values())

    def _begin(self, part: _Part) -> None:
        samples, channels = part.tracks
        recording, numbers = part.recording, tuple(range(self._number, self._number + len(samples)))
        piece = Piece(recording.item, part.start, part.seconds, numbers, channels)
        self._order.begin(piece)
        for number, channel, track in zip(numbers, channels, samples, strict=True):
            language = recording.options.language or recording.languages.get(channel)
            options = replace(recording.options, language=language)
            self._active[number] = _Active(recording, channel, piece)
            self._waiting.append(Job(number, recording.item.id, track, part.seconds, 0, channel, options))
        self._number += len(samples)
        self._next = None

    # ---- for the run's side

    def take(self, output: Output | JobFailed) -> None:
        """What became of a job's window: its language may hold for what follows; with the last one there is room."""
        with self._changed:
            active = self._active.get(output.job_id)
            if active is None:
                return
            if isinstance(output, Output) and output.language and self._reading.one_language:
                active.recording.languages.setdefault(active.channel, output.language)
            if isinstance(output, JobFailed) or output.last:
                del self._active[output.job_id]
            self._changed.notify_all()

    def close(self) -> None:
        """No further job; whoever waits for one is let go."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # ---- reading

    def _read(self, items: Sequence[Item]) -> Iterator[_Part]:
        for item in items:
            try:
                yield from self._recording(item)
            except ItemError as error:
                self._order.end(Failed(item, error.stage, error.cause))

    def _recording(self, item: Item) -> Iterator[_Part]:
        rate, options = self._reading.sample_rate, self._reading.options_for(item)
        recording, done = _Recording(item, options), 0
        with open_sound(item, rate, options.channels, self._reading.headerless) as sound:
            with item_stage(item.source, "decode"):
                for piece in pieces(sound.blocks(), rate, FIRST, self._following(item)):
                    yield self._part(recording, sound, piece, done)
                    done += len(piece)
            self._order.end(Heard(item, done / rate, tuple(sound.warnings())))

    def _following(self, item: Item) -> Length:
        """Who pipes a sound in may be recording it just now, and waits for the text."""
        return FIRST if item.source == STANDARD_INPUT else self._reading.length

    def _part(self, recording: _Recording, sound: Sound, piece: Samples, done: int) -> _Part:
        rate = self._reading.sample_rate
        return _Part(recording, done / rate, len(piece) / rate, sound.heard(piece))
