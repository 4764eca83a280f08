"""Whisper's input: the log-mel spectrogram of one window, a function of that window's samples alone."""

from __future__ import annotations

from functools import cache

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlxbatch.encoder_context import WINDOW_FRAMES
from mlxbatch.engines.whisper.windows import FRAME_SAMPLES, SAMPLE_RATE

N_FFT = 400


@cache
def mel_filters(n_mels: int) -> NDArray[np.float32]:
    """Triangular filters [n_mels, N_FFT // 2 + 1], each of unit area, on Slaney's mel scale.

    Slaney 1998, "Auditory Toolbox", as in `librosa.filters.mel(sr=16000, n_fft=400, n_mels=n_mels)`.
    """
    edges = _mel_to_hertz(np.linspace(0.0, _hertz_to_mel(SAMPLE_RATE / 2), n_mels + 2))
    bins = np.linspace(0.0, SAMPLE_RATE / 2, N_FFT // 2 + 1)
    width = np.diff(edges)
    ramps = edges[:, None] - bins[None, :]
    rising, falling = -ramps[:-2] / width[:-1, None], ramps[2:] / width[1:, None]
    area = 2.0 / (edges[2:] - edges[:-2])
    return (np.maximum(0.0, np.minimum(rising, falling)) * area[:, None]).astype(np.float32)


# Slaney's scale: linear below 1 kHz (200/3 Hz a mel), logarithmic above (27 mels a factor of 6.4).
_LINEAR, _KNEE_HERTZ, _LOG_STEP = 200.0 / 3, 1000.0, np.log(6.4) / 27.0
_KNEE_MEL = _KNEE_HERTZ / _LINEAR


def _hertz_to_mel(hertz: float) -> float:
    if hertz < _KNEE_HERTZ:
        return hertz / _LINEAR
    return float(_KNEE_MEL + np.log(hertz / _KNEE_HERTZ) / _LOG_STEP)


def _mel_to_hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(mel < _KNEE_MEL, mel * _LINEAR, _KNEE_HERTZ * np.exp(_LOG_STEP * (mel - _KNEE_MEL)))


def log_mel(
    samples: NDArray[np.float32], n_mels: int, dtype: mx.Dtype = mx.float32, frames: int = WINDOW_FRAMES
) -> mx.array:
    """Log-mel of one window: samples -> [frames, n_mels], lazy, on the current stream.

    As in openai/whisper `log_mel_spectrogram`: zero-padded to the frames' length, Hann window of 25 ms every 10 ms,
    power, base-10 logarithm, floored 8 decades below the window's peak, scaled by (x + 4) / 4.
    """
    length, half = frames * FRAME_SAMPLES, N_FFT // 2
    padded = np.zeros(length + N_FFT, np.float32)
    padded[half : half + min(len(samples), length)] = samples[:length]
    padded[:half] = padded[half + 1 : N_FFT + 1][::-1]
    padded[-half:] = padded[-N_FFT - 1 : -half - 1][::-1]
    windows = mx.as_strided(mx.array(padded), (frames, N_FFT), (FRAME_SAMPLES, 1))
    hann = mx.array(np.hanning(N_FFT + 1)[:-1].astype(np.float32))
    power = mx.abs(mx.fft.rfft(windows * hann, axis=-1)).square()
    mel = mx.log10(mx.maximum(power @ mx.array(mel_filters(n_mels).T), 1e-10))
    return ((mx.maximum(mel, mel.max() - 8.0) + 4.0) / 4.0).astype(dtype)
