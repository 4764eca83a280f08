"""How far two waveforms are apart. Pure but for NumPy; samples are float, mono."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]
# Of the log spectra: 43 ms every 11 ms at 24 kHz, and nothing of what is 60 dB below the loudest.
WINDOW, HOP, FLOOR_DB = 1024, 256, 60.0


def si_sdr(reference: Samples, estimate: Samples) -> float:
    """Scale-invariant signal-to-distortion ratio in dB (Le Roux et al. 2019, "SDR - Half-baked or Well Done?").

    Infinite for an estimate that is the reference but for its loudness; of the length that both have.
    """
    length = min(len(reference), len(estimate))
    target, found = (x[:length].astype(np.float64) - x[:length].mean() for x in (reference, estimate))
    power = float(target @ target)
    if power == 0:
        return -math.inf
    wanted = (found @ target) / power * target
    rest = float(np.sum((found - wanted) ** 2))
    signal = float(np.sum(wanted**2))
    if rest <= np.finfo(np.float32).eps ** 2 * signal:
        return math.inf if signal else -math.inf
    return 10 * math.log10(signal / rest) if signal else -math.inf


def log_spectral_distance(one: Samples, other: Samples) -> float:
    """Root mean square difference of the log power spectra, in dB, in the mean over frames (Gray and Markel 1976,
    "Distance measures for speech processing"), frames that say the same being found by dynamic time warping (Sakoe and
    Chiba 1978): two models may take their time differently. Infinite where one is too short for a frame."""
    spectra = [_log_spectra(x) for x in (one, other)]
    if not all(len(frames) for frames in spectra):
        return math.inf
    top = max(float(frames.max()) for frames in spectra)
    a, b = (np.maximum(frames, top - FLOOR_DB) for frames in spectra)
    squares = (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T
    distances = np.sqrt(np.maximum(squares, 0.0) / a.shape[1])
    return float(np.mean([distances[place] for place in _path(distances)]))


def _log_spectra(samples: Samples) -> NDArray[np.float64]:
    """[frames, bins] in dB."""
    if len(samples) < WINDOW:
        return np.zeros((0, WINDOW // 2 + 1))
    frames = np.lib.stride_tricks.sliding_window_view(samples.astype(np.float64), WINDOW)[::HOP]
    power = np.abs(np.fft.rfft(frames * np.hanning(WINDOW))) ** 2
    return np.asarray(10 * np.log10(power + 1e-12))


def _path(distances: NDArray[np.float64]) -> list[tuple[int, int]]:
    """The way through the matrix from the first pair to the last whose distances sum to the least."""
    rows, columns = distances.shape
    sums = np.full((rows + 1, columns + 1), np.inf)
    sums[0, 0] = 0.0
    for row in range(rows):
        for column in range(columns):
            before = min(sums[row, column], sums[row, column + 1], sums[row + 1, column])
            sums[row + 1, column + 1] = distances[row, column] + before
    place = (rows, columns)
    path = [(rows - 1, columns - 1)]
    while path[-1] != (0, 0):
        row, column = place
        place = min(((row - 1, column - 1), (row - 1, column), (row, column - 1)), key=lambda at: sums[at])
        path.append((place[0] - 1, place[1] - 1))
    return path


def pink_noise(length: int, seed: int) -> Samples:
    """Noise whose power falls as 1 / frequency, as that of many rooms does; of unit power."""
    spectrum = np.fft.rfft(np.random.default_rng(seed).standard_normal(length))
    spectrum[1:] /= np.sqrt(np.arange(1, len(spectrum)))
    spectrum[0] = 0
    noise = np.fft.irfft(spectrum, length)
    return np.asarray(noise / np.sqrt(np.mean(noise**2)), np.float32)


def mixed(speech: Samples, noise: Samples, decibels: float) -> Samples:
    """Speech with noise so many dB below it, in power over the whole."""
    power = float(np.mean(speech.astype(np.float64) ** 2))
    return np.asarray(speech + noise * math.sqrt(power / 10 ** (decibels / 10)), np.float32)
