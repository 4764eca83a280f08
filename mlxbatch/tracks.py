"""Which channels of a recording carry a voice of their own. Arrays only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]

# Seconds of which levels are taken: short enough for one word to show, long enough to be no click.
_STRETCH_S = 0.2
# Nobody is heard this far below the loudest stretch of the loudest channel. The quiet side of a call is 10 to 30 dB
# below the other; what 8-bit telephony makes of silence is 50 to 60 dB below speech.
_NOISE_DB = -50.0
# What another channel does not explain of a stretch, where it explains it: of stereo recordings of one voice, in all
# codecs of the test data, -6.8 dB at most in any stretch; of the calls, whose sides do not hear each other, 0 dB.
_OWN_DB = -6.0
# Channels without a voice of their own that are as loud as this against the one they repeat are copies of it.
_COPY_DB = -20.0


def voices(samples: Samples, sample_rate: int) -> tuple[int, list[str]]:
    """How many tracks there are to hear, and what is to be said; tracks without a voice of their own are silenced.

    `samples` are a recording's channels, shape [channels, n], and changed in place. A channel has no voice of its own
    where the loudest channel, at one level throughout, explains every stretch of it that is not noise: the noise of a
    dead line, and crosstalk, which has no delay. An echo has one, and stays. Where all channels are copies of one, as
    in a recording of one voice saved as stereo, there is one track to hear.
    """
    if len(samples) < 2 or not samples.any():
        return len(samples), []
    stretches = _stretches(samples.shape[1], sample_rate)
    levels = np.array([[_level(track[one]) for one in stretches] for track in samples])
    peaks = levels.max(axis=1)
    first, noise = int(np.argmax(peaks)), float(peaks.max()) * _factor(_NOISE_DB)
    shares = [_share(samples[first], track) for track in samples]

    def explained(number: int) -> bool:
        track, share = samples[number], shares[number]
        bounds = np.maximum(noise, levels[number] * _factor(_OWN_DB))
        return all(
            level <= noise or _level(track[one] - np.float32(share) * samples[first, one]) < bound
            for one, level, bound in zip(stretches, levels[number], bounds, strict=True)
        )

    mute = [number for number in range(len(samples)) if number != first and explained(number)]
    if len(mute) == len(samples) - 1 and all(abs(shares[number]) > _factor(_COPY_DB) for number in mute):
        samples[0] = samples[first]
        return 1, [f"the {len(samples)} channels have the same sound: it was heard once, and nobody can be told apart"]
    said = [_no_voice(number, first, peaks) for number in mute if peaks[number]]
    samples[mute] = 0.0
    return len(samples), said


def _no_voice(number: int, first: int, peaks: NDArray[np.float64]) -> str:
    below = 20 * np.log10(peaks[first] / peaks[number])
    return f"channel {number} has no voice of its own ({below:.0f} dB below channel {first}): taken as silent"


def _share(of: Samples, track: Samples) -> float:
    """How much of another track is in this one, as a factor: least squares, without delay."""
    return float(np.einsum("n,n->", of, track, dtype=np.float64) / np.einsum("n,n->", of, of, dtype=np.float64))


def _level(part: Samples) -> float:
    """Root mean square."""
    return float(np.sqrt(np.einsum("n,n->", part, part, dtype=np.float64) / len(part)))


def _factor(decibels: float) -> float:
    return float(10 ** (decibels / 20))


def _stretches(length: int, sample_rate: int) -> list[slice]:
    step = max(1, round(_STRETCH_S * sample_rate))
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]
