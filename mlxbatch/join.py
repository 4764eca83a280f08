"""What an engine puts out of a recording's jobs, made into one transcript. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mlxbatch.types import Output, Recording, Segment, Transcript
from mlxbatch.words import cut_off


class Join:
    """The windows of one recording's jobs, one job per track, until all of them are there.

    By number: a job that was begun anew after a crash repeats the windows it had finished, or comes to fewer.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._windows: dict[int, dict[int, Output]] = {}
        self._whole: dict[int, list[Output]] = {}

    def take(self, output: Output) -> bool:
        """Put a window in; True once that was the last one of the last job."""
        windows = self._windows.setdefault(output.job_id, {})
        windows[output.window] = output
        if output.last:
            self._whole[output.job_id] = [windows[number] for number in sorted(windows) if number <= output.window]
        return len(self._whole) == len(self._recording.channels)

    @property
    def outputs(self) -> list[list[Output]]:
        """Each track's windows in order, the tracks in the recording's order, which is that of their jobs."""
        return [self._whole[job] for job in sorted(self._whole)]

    def transcript(self, model: str) -> Transcript:
        """The tracks' segments in one, by the time at which they begin; `model` is the name of the one that heard them.

        Its language is the one that was spoken longest.
        """
        recording, tracks = self._recording, self.outputs
        outputs = [output for track in tracks for output in track]
        segments = [
            segment if segment.channel == channel else replace(segment, channel=channel)
            for channel, track in zip(recording.channels, tracks, strict=True)
            for output in track
            for segment in output.segments
        ]
        return Transcript(
            segments=tuple(sorted(segments, key=_begin)),
            language=_language(outputs),
            seconds=recording.seconds,
            warnings=(*recording.warnings, *cut_off([output.stats for output in outputs])),
            truncated=recording.truncated,
            model=model,
            channels=recording.channels,
        )


def _begin(segment: Segment) -> float:
    return segment.start


def _language(outputs: Sequence[Output]) -> str | None:
    """The language of the most seconds of speech; where nothing was said, the first that was taken for one."""
    spoken: dict[str, float] = {}
    for output in outputs:
        if output.language is not None:
            seconds = sum(segment.end - segment.start for segment in output.segments)
            spoken[output.language] = spoken.get(output.language, 0.0) + seconds
    return max(spoken, key=spoken.__getitem__, default=None)
