"""What ffmpeg's libraries read, through PyAV: MP3, every container of video and phones, G.722, G.726 and so on.

One container per call, one thread per codec, so that worker threads do not meet. The file is handed over by its
descriptor, and only demuxers of single files are let near it: a playlist could name other files, or a host.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import IO, Any

import av

from mlxbatch.av_frames import Gaps, Packing, floats
from mlxbatch.chunks import DataChunk
from mlxbatch.container_marks import asf_seconds, counted_frames, lacks_index
from mlxbatch.headerless import ENCODINGS, Rule
from mlxbatch.plausible import HIGHEST_RATE, LOWEST_RATE
from mlxbatch.regular_file import rewound
from mlxbatch.truncation import TOLERANCE_S, truncation
from mlxbatch.uniform import Samples, gathered, uniform

_DEMUXERS = (
    "mov,matroska,webm,avi,asf,flv,mpegts,mpeg,mxf,mp3,aac,loas,ac3,eac3,dts,dtshd,truehd,mlp,ogg,flac,wav,w64,aiff,"
    "au,caf,voc,sox,amr,amrnb,amrwb,ape,tta,wv,tak,mpc,mpc8,rm,ivr,qcp,ilbc,oma,dsf,iff,gxf,wtv,nut,nuv,nsv,3gp,"
    "spdif,shn,nistsphere,ircam,dss"
)
# Whose streams' durations stand in a header. The others' are estimates, or the last timestamp in the file.
_TELL_PER_STREAM = frozenset({"mov,mp4,m4a,3gp,3g2,mj2", "avi", "tta", "wv", "ape", "tak", "flac"})
_TELL_AS_A_WHOLE = frozenset({"matroska,webm", "flv"})
# Of the longest stream: the last frame of a slide show has no length of its own.
_WHOLE_TOLERANCE_S = 2.0
_ASF_TOLERANCE_S = 1.0  # a packet of sound, whose length may stand nowhere
_PADDING_S = 0.5  # at most what encoders put before and behind the sound
# Bit/s for the length of what says neither its length nor its bit rate.
_GUESSED_RATE, _GUESSED_VIDEO_RATE = 32_000, 1_000_000


class Refused(Exception):
    """No sound can be had from it. `said`: whether the cause is about this file, not just "invalid data"."""

    def __init__(self, cause: str, *, said: bool) -> None:
        super().__init__(cause)
        self.cause, self.said = cause, said


@contextmanager
def open_libav(
    file: IO[bytes], chunk: DataChunk | None = None, rule: Rule | None = None, *, whole: bool = True
) -> Iterator[LibavSource]:
    """The sound of an open file, headerless by a rule. `whole` is False for an Ogg stream without end.

    Raises Refused.
    """
    demuxer, options = None, {"format_whitelist": _DEMUXERS}
    if rule:
        demuxer, options = ENCODINGS[rule.encoding].demuxer, dict(ENCODINGS[rule.encoding].options)
    # Before ffmpeg has the file: the descriptor has one position for both.
    counted, asf = counted_frames(file), asf_seconds(file)
    try:
        container = av.open(
            "fd:", format=demuxer, options={"fd": str(rewound(file)), **options}, metadata_errors="replace"
        )
    except (av.FFmpegError, OSError, ValueError) as error:
        missing = lacks_index(file)
        raise Refused(missing or plain(error), said=missing is not None) from error
    with container:
        stream = _stream(container)
        yield LibavSource(container, stream, chunk, _tells_length(container, stream, counted), whole=whole, asf=asf)


@contextmanager
def open_piped(file: IO[bytes]) -> Iterator[LibavSource]:
    """The sound that comes through an open pipe, whose length nobody can tell. Raises Refused."""
    try:
        options = {"fd": str(file.fileno()), "format_whitelist": _DEMUXERS}
        container = av.open("fd:", options=options, metadata_errors="replace")
    except (av.FFmpegError, OSError, ValueError) as error:
        raise Refused(plain(error), said=False) from error
    with container:
        yield LibavSource(container, _stream(container), None, says_length=False, whole=True)


def _stream(container: Any) -> Any:
    """The stream that a player would take. Raises Refused where there is none, or none that can be decoded."""
    stream = container.streams.best("audio")
    if stream is not None and stream.codec_context is not None:
        return stream
    if stream is None and not container.streams.audio:
        raise Refused("a video without sound" if container.streams.video else "no sound in it", said=True)
    raise Refused("its sound is in a codec that is not known here", said=True)


def _tells_length(container: Any, stream: Any, counted: int | None) -> bool:
    """Whether the stream's duration stands in the header, instead of being a guess by a bit rate."""
    if container.format.name != "mp3":
        return container.format.name in _TELL_PER_STREAM
    rate = stream.codec_context.sample_rate
    if not counted or not stream.duration or not rate:
        return False
    seconds = counted * (1152 if rate >= 32000 else 576) / rate
    # Of files put one behind the other the first one's count says nothing; then ffmpeg guesses.
    return bool(abs(float(stream.duration * stream.time_base) - seconds) < _PADDING_S)


class LibavSource:
    """See source.Source. Damaged packets are passed over; the first frame, not the header, tells rate and channels."""

    def __init__(
        self,
        container: Any,
        stream: Any,
        chunk: DataChunk | None,
        says_length: bool,
        *,
        whole: bool,
        asf: float | None = None,
    ) -> None:
        self._asf = asf
        self._container, self._stream, self._chunk, self._whole = container, stream, chunk, whole
        self._context = stream.codec_context
        self._context.thread_count = 1
        self._tells = says_length
        self._reached = 0.0  # end of the last packet of the stream, in seconds
        self._reached_by_any = 0.0
        self._lost = 0.0  # seconds that the packets last, but what came of them does not
        self.stopped: str | None = None
        self.notes: list[str] = _choice(container, stream)
        self._decoded = self._frames()
        self._first = next(self._decoded, None)
        block, rate = self._first if self._first else (None, self._context.sample_rate)
        self.sample_rate: int = rate
        self.channels: int = block.shape[1] if block is not None else max(1, self._context.channels)
        self.is_float: bool = _holds_floats(self._context)
        self.seconds: float = self._estimate()

    def blocks(self) -> Iterator[Samples]:
        frames = chain([self._first] if self._first else [], self._decoded)
        yield from gathered(uniform(frames, self.sample_rate, self.channels, self.notes))
        if self._lost > _PADDING_S:
            self.notes.append(f"damaged: {self._lost:.2f} s of sound could not be decoded")

    def truncation(self, frames: int) -> str | None:
        if not self._whole:
            return "truncated: its Ogg stream breaks off without an end"
        decoded = frames / self.sample_rate
        if self._chunk is not None and self._chunk.claimed is not None:
            return truncation(decoded, self._chunk.announced(frames, self.sample_rate))
        announced, reached, tolerance = self._announced()
        # By the container's own clock: what decoders take from the beginning and the end is not missing.
        return truncation(decoded, announced) if announced - reached > tolerance else None

    def _announced(self) -> tuple[float, float, float]:
        """Seconds that the header announces (0: none), how far packets came, and how much may lack."""
        if self._tells:
            return self._stream_seconds(), self._reached, TOLERANCE_S
        if self._asf is not None:
            return self._asf, self._reached_by_any, _ASF_TOLERANCE_S
        if self._container.format.name not in _TELL_AS_A_WHOLE:
            return 0.0, 0.0, 0.0
        if tagged := _clock(self._stream.metadata.get("DURATION", "")):
            return tagged, self._reached, TOLERANCE_S
        announced = (self._container.duration or 0) / 1e6
        return announced, self._reached_by_any, _WHOLE_TOLERANCE_S

    def _stream_seconds(self) -> float:
        stream = self._stream
        return float(stream.duration * stream.time_base) if stream.duration else 0.0

    def _estimate(self) -> float:
        """The best that can be said of the length without decoding it all."""
        tagged = _clock(self._stream.metadata.get("DURATION", ""))
        said = self._stream_seconds() or tagged or (self._container.duration or 0) / 1e6
        if said > 0:
            return said
        guess = _GUESSED_VIDEO_RATE if self._container.streams.video else _GUESSED_RATE
        return float(self._container.size * 8 / (self._container.bit_rate or guess))

    def _frames(self) -> Iterator[tuple[Samples, int]]:
        """(samples [n, channels], rate) of each frame that can be decoded."""
        given, decoded, problem, packed, gaps = 0.0, 0.0, "", Packing(), Gaps(self._container)
        for packet in self._packets():
            if packet is not None and packet.size:
                given += float((packet.duration or 0) * packet.time_base)
            try:
                frames = [*packed(packet.decode() if packet is not None else self._context.decode(None))]
            except (av.FFmpegError, OSError, ValueError) as error:
                problem = f": {plain(error)}"
                continue
            for frame in frames:
                if frame.samples and LOWEST_RATE <= frame.sample_rate <= HIGHEST_RATE:
                    decoded += frame.samples / frame.sample_rate
                    yield from ((silence, frame.sample_rate) for silence in gaps.before(frame))
                    yield floats(frame), frame.sample_rate
        # Some decoders pass over what they cannot make out, without an error.
        self._lost = given - decoded
        if not decoded and (problem or given > TOLERANCE_S):
            self.stopped = f"its sound ({self._context.name}) cannot be decoded{problem}"

    def _packets(self) -> Iterator[Any]:
        """The stream's packets; None, for what the decoder still holds, where the container breaks off."""
        packets = self._container.demux()
        while True:
            try:
                packet = next(packets, None)
            except (av.FFmpegError, OSError, ValueError) as error:
                self.stopped = plain(error)
                yield None
                return
            if packet is None:
                return
            ours = packet.stream.index == self._stream.index
            self._note_end(packet, ours)
            if ours:
                yield packet

    def _note_end(self, packet: Any, ours: bool) -> None:
        if packet.pts is None or not packet.size:
            return
        end = float((packet.pts + (packet.duration or 0)) * packet.time_base)
        self._reached_by_any = max(self._reached_by_any, end)
        if ours:
            self._reached = max(self._reached, end)


def _holds_floats(context: Any) -> bool:
    """Whether the codec keeps floats as they were; most others only compute with them."""
    kept = context.name.startswith("pcm_f") or context.name == "wavpack"
    return kept and context.format is not None and context.format.name[:3] in ("flt", "dbl")


def _choice(container: Any, stream: Any) -> list[str]:
    """A note where there are several streams of sound: which one was taken."""
    streams = list(container.streams.audio)
    if len(streams) < 2:
        return []
    number = [one.index for one in streams].index(stream.index)
    language = stream.language
    named = f" ({language})" if language not in (None, "und") else ""
    return [f"{len(streams)} streams of sound: number {number} was taken{named}, counted from 0"]


def plain(error: Exception) -> str:
    """ffmpeg's words, without number and name: "invalid data found when processing input"."""
    words = getattr(error, "strerror", None) or str(error)
    if words.startswith("Error number"):  # one that ffmpeg itself has no words for
        return "invalid data"
    return words[:1].lower() + words[1:]


def _clock(text: str) -> float:
    """Seconds of a Matroska tag, "00:00:11.008000000"; 0 where it is none."""
    parts = text.split(":")
    try:
        hours, minutes, seconds = map(float, parts)
    except ValueError:
        return 0.0
    found = hours * 3600 + minutes * 60 + seconds
    return found if math.isfinite(found) and found > 0 else 0.0
