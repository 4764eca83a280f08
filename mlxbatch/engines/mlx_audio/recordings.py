"""Recordings as they are to be heard: all of each, or its speech, found ahead of the model while that is at work."""

from __future__ import annotations

from collections import deque

from mlxbatch.engines.base import Jobs
from mlxbatch.engines.mlx_audio.cuts import Opened
from mlxbatch.engines.mlx_audio.pieces import pieces, speech_pieces
from mlxbatch.types import Job
from mlxbatch.vad.ahead import Heard, SpeechAhead

# Seconds. A pause longer than this is never heard, as in Whisper's windows (where it was measured, docs/speech.md):
# it divides two pieces, or is silence in the middle of one.
PAUSE = 1.0


class Recordings:
    """Jobs in, each out with its pieces once they are known: in the order of the jobs, or in that of the detector.

    With `ahead` the speech of up to `look_ahead` recordings is looked for at once, in all that ask for it. Pieces are
    of at most `longest` seconds; pauses of up to `apart` seconds may be in one (families.Family).
    """

    def __init__(
        self, jobs: Jobs, sample_rate: int, longest: float, apart: float, ahead: SpeechAhead | None, look_ahead: int
    ) -> None:
        self._jobs, self._rate, self._longest, self._apart, self._ahead = jobs, sample_rate, longest, apart, ahead
        self._look_ahead = look_ahead if ahead else 1
        self._opened: deque[Opened] = deque()
        self._more = True

    @property
    def _pending(self) -> int:
        return self._ahead.pending if self._ahead else 0

    def __next__(self) -> Opened:
        self._fill(wait=True)
        if not self._opened:
            raise StopIteration
        return self._opened.popleft()

    def ready(self) -> bool:
        """Whether `next()` would return, or end, at once."""
        self._fill(wait=False)
        return bool(self._opened) or not (self._more or self._pending)

    def _fill(self, *, wait: bool) -> None:
        """Take jobs that are ready, up to the look-ahead; with `wait` block until there is a recording, or no more."""
        self._take_heard(wait=False)
        idle = wait and not self._opened and not self._pending
        while self._more and len(self._opened) + self._pending < self._look_ahead and (idle or self._jobs.ready()):
            idle = False
            try:
                self._begin(next(self._jobs))
            except StopIteration:
                self._more = False
        self._take_heard(wait=wait and not self._opened)

    def _begin(self, job: Job) -> None:
        if self._ahead and job.options.vad:
            self._ahead.put(job)
        else:
            whole = pieces(job.samples, self._rate, self._longest)
            self._opened.append(Opened(job, [(piece,) for piece in whole]))

    def _take_heard(self, *, wait: bool) -> None:
        for heard in self._ahead.take(wait=wait) if self._ahead else ():
            self._opened.append(self._open(heard))

    def _open(self, heard: Heard) -> Opened:
        longest, apart, pause = (int(seconds * self._rate) for seconds in (self._longest, self._apart, PAUSE))
        found = speech_pieces(heard.speech, longest, apart, pause)
        return Opened(heard.job, found, heard.problem)
