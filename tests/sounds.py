"""Recordings that tests make: tones, in any format that libsndfile or ffmpeg can write."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray


def tone(seconds: float = 1.0, rate: int = 16000, frequency: float = 440.0, level: float = 0.5) -> NDArray[np.float32]:
    samples = level * np.sin(2 * np.pi * frequency * np.arange(round(seconds * rate)) / rate)
    return samples.astype(np.float32)


def voices(seconds: float = 1.0, rate: int = 16000, channels: int = 2) -> NDArray[np.float32]:
    """Shape [n, channels]: a tone of its own for each."""
    return np.stack([tone(seconds, rate, 300.0 + 100 * c, 0.3) for c in range(channels)], axis=1)


def loudness(samples: NDArray[np.floating]) -> float:
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))


def encoded(
    path: Path,
    codec: str,
    samples: NDArray[np.float32],
    rate: int = 16000,
    *,
    container: str | None = None,
    video: bool = False,
    options: dict[str, str] | None = None,
    bit_rate: int | None = None,
    pause: tuple[float, float] = (0.0, 0.0),
) -> Path:
    """Samples, shape [n] or [n, channels], by one of ffmpeg's encoders; `video` runs beside them.

    `pause`: at so many seconds, so many seconds of nothing, by the time stamps alone.
    """
    with av.open(str(path), "w", format=container, options=options or {}) as out:
        stream = out.add_stream(codec, rate=rate, layout=_layout(samples))
        if bit_rate:
            stream.bit_rate = bit_rate
        picture = out.add_stream("mpeg4", rate=Fraction(5), width=64, height=64, pix_fmt="yuv420p") if video else None
        _mux(out, stream, samples, rate, pause)
        if picture:
            _film(out, picture, len(samples) / rate)
    return path


def pictures_only(path: Path) -> Path:
    """A video of a second without sound."""
    with av.open(str(path), "w") as out:
        _film(out, out.add_stream("mpeg4", rate=Fraction(5), width=64, height=64, pix_fmt="yuv420p"), 1.0)
    return path


def two_streams(path: Path, first: NDArray[np.float32], second: NDArray[np.float32], rate: int = 16000) -> Path:
    """Two streams of sound, the second of which is the default one."""
    with av.open(str(path), "w") as out:
        streams = [out.add_stream("aac", rate=rate, layout="mono") for _ in range(2)]
        streams[0].metadata["language"], streams[1].metadata["language"] = "eng", "deu"
        streams[0].disposition, streams[1].disposition = 0, av.stream.Disposition.default
        for stream, samples in zip(streams, (first, second), strict=True):
            _mux(out, stream, samples, rate)
    return path


def _film(out: av.container.OutputContainer, stream: av.VideoStream, seconds: float) -> None:
    for number in range(round(seconds * 5)):
        frame = av.VideoFrame.from_ndarray(np.full((64, 64, 3), 40, np.uint8), format="rgb24")
        frame.pts = number
        out.mux(stream.encode(frame))
    out.mux(stream.encode(None))


def _mux(
    out: av.container.OutputContainer,
    stream: av.AudioStream,
    samples: NDArray[np.float32],
    rate: int,
    pause: tuple[float, float] = (0.0, 0.0),
) -> None:
    for start in range(0, len(samples), 4096):
        late = round(pause[1] * rate) if start >= pause[0] * rate else 0
        packed = np.ascontiguousarray(samples[start : start + 4096].reshape(1, -1))
        frame = av.AudioFrame.from_ndarray(packed, format="flt", layout=_layout(samples))
        frame.sample_rate, frame.pts, frame.time_base = rate, start + late, Fraction(1, rate)
        out.mux(stream.encode(frame))
    out.mux(stream.encode(None))


def _layout(samples: NDArray[np.float32]) -> str:
    return {1: "mono", 2: "stereo", 6: "5.1", 8: "7.1"}[1 if samples.ndim == 1 else samples.shape[1]]
