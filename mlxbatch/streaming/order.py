"""The engine finishes windows in any order; here the segments of a stream come out in the order of time. Pure.

A stream is a row of pieces and of the ends of recordings. A piece's segments wait for the pieces before it, and where
it has several tracks, for whatever of the other tracks may still begin earlier.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from mlxbatch.types import Failed, Item, JobFailed, Output, Segment, WindowStats
from mlxbatch.words import cut_off


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a recording as jobs, one for each track; times in seconds of the recording.

    `channels` tells which channel each track is, counted from 0; None is a mix.
    """

    item: Item
    start: float
    seconds: float
    jobs: tuple[int, ...]
    channels: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Heard:
    """A recording is read to its end: its length, and what the user should know of it."""

    item: Item
    seconds: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Spoken:
    """A segment in its recording's time, of a piece whose `channels` were heard."""

    item: Item
    segment: Segment
    language: str | None
    channels: tuple[int | None, ...]


Told = Spoken | Heard | Failed


@dataclass(slots=True)
class _Track:
    """A job's segments that wait, each with its language. Nothing that begins before `reached` will follow.

    `windows` are those that were taken: a job that was begun anew repeats them.
    """

    channel: int | None
    start: float
    windows: int = 0
    reached: float = 0.0
    done: bool = False
    waiting: deque[tuple[Segment, str | None]] = field(default_factory=deque)

    def take(self, output: Output) -> None:
        if output.window >= self.windows:
            self.windows = output.window + 1
            segments = sorted((self._placed(segment) for segment in output.segments), key=lambda one: one.start)
            self.waiting.extend((segment, output.language) for segment in segments)
            self.reached = max([self.start + output.stats.start, *(segment.end for segment in segments)])
        self.done = self.done or output.last

    def _placed(self, segment: Segment) -> Segment:
        """In the recording's time, to the millisecond."""

        def at(seconds: float) -> float:
            return round(self.start + seconds, 3)

        words = tuple(replace(word, start=at(word.start), end=at(word.end)) for word in segment.words)
        return replace(segment, start=at(segment.start), end=at(segment.end), words=words, channel=self.channel)


@dataclass(slots=True)
class _Begun:
    """A piece, its tracks, and what went wrong with them."""

    piece: Piece
    tracks: tuple[_Track, ...]
    failures: deque[Failed] = field(default_factory=deque)

    def segments(self) -> Iterator[tuple[Segment, str | None]]:
        """Those that are certain to be next, in order."""
        while waiting := [track for track in self.tracks if track.waiting]:
            track = min(waiting, key=lambda one: one.waiting[0][0].start)
            start = track.waiting[0][0].start
            if any(not other.waiting and not other.done and other.reached < start for other in self.tracks):
                return
            yield track.waiting.popleft()

    @property
    def done(self) -> bool:
        return all(track.done and not track.waiting for track in self.tracks)


class Order:
    """`begin` and `end` are called in the order of time, before any output of theirs is taken, on any thread."""

    def __init__(self) -> None:
        self._cut: dict[str, list[WindowStats]] = {}  # by item: windows whose text was cut off
        self._entries: deque[_Begun | Heard | Failed] = deque()
        self._tracks: dict[int, tuple[_Begun, _Track]] = {}  # by job

    def begin(self, piece: Piece) -> None:
        tracks = tuple(_Track(channel, piece.start) for channel in piece.channels)
        begun = _Begun(piece, tracks)
        self._tracks |= {job: (begun, track) for job, track in zip(piece.jobs, tracks, strict=True)}
        self._entries.append(begun)

    def end(self, how: Heard | Failed) -> None:
        """All of a recording's pieces have begun, or it cannot be read any further."""
        self._entries.append(how)

    def take(self, output: Output | JobFailed) -> None:
        """What became of a job's window, or of the job."""
        begun, track = self._tracks[output.job_id]
        if isinstance(output, JobFailed):
            begun.failures.append(_failure(begun.piece, output.cause))
            track.done = True
        else:
            track.take(output)
            if output.stats.cut:
                placed = replace(output.stats, start=begun.piece.start + output.stats.start)
                self._cut.setdefault(begun.piece.item.id, []).append(placed)
        if track.done:
            del self._tracks[output.job_id]

    def told(self) -> Iterator[Told]:
        """What can be told now."""
        while self._entries:
            entry = self._entries[0]
            if isinstance(entry, _Begun):
                for segment, language in entry.segments():
                    yield Spoken(entry.piece.item, segment, language, entry.piece.channels)
                while entry.failures:
                    yield entry.failures.popleft()
                if not entry.done:
                    return
            self._entries.popleft()
            if isinstance(entry, Heard):
                yield replace(entry, warnings=(*entry.warnings, *cut_off(self._cut.pop(entry.item.id, []))))
            elif isinstance(entry, Failed):
                yield entry

    def give_up(self, cause: str) -> None:
        """No more will come of the jobs that are begun."""
        for job in list(self._tracks):
            self.take(JobFailed(job, cause))


def _failure(piece: Piece, cause: str) -> Failed:
    return Failed(piece.item, "infer", f"from {piece.start:.1f} to {piece.start + piece.seconds:.1f} s: {cause}")
