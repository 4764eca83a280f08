"""Which channels of a recording carry a voice of their own. Arrays only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]

# Seconds of which the level is taken: short enough for one word to show, long enough to be no click.
_STRETCH_S = 0.2
# A channel whose loudest stretch is this far below that of the loudest channel carries nobody. The quiet side of a call
# is 10 to 30 dB below the other; what 8-bit telephony makes of silence is 50 to 60 dB below speech.
_DEAD_DB = -50.0
# Of two channels with the same sound neither is the other's crosstalk while their levels are this close.
_SAME_DB = -20.0


def voices(samples: Samples, sample_rate: int) -> tuple[int, list[str]]:
    """How many tracks there are to hear, and what is to be said; silences, in place, tracks that carry no voice.

    `samples` are a recording's channels, shape [channels, n]. A channel is silenced where nothing is left of it, or
    next to nothing, once the loudest channel's share in it is taken away: the noise of a dead line, and crosstalk,
    which has no delay. An echo has one, and stays. Where all channels are one sound, as in a mono recording saved as
    stereo, whatever its sign, there is one track to hear.
    """
    if len(samples) < 2 or not samples.size:
        return len(samples), []
    stretch = max(1, round(_STRETCH_S * sample_rate))
    levels = [_loudest(track, stretch) for track in samples]
    first = int(np.argmax(levels))
    if levels[first] == 0.0:
        return len(samples), []
    shares = [_share(samples[first], track) for track in samples]
    left = [_loudest(track, stretch, samples[first], share) for track, share in zip(samples, shares, strict=True)]
    dead = [number for number in range(len(samples)) if number != first and _db(left[number], levels[first]) < _DEAD_DB]
    if len(dead) == len(samples) - 1 and all(_db(abs(shares[number]), 1.0) > _SAME_DB for number in dead):
        return _one_sound(samples, first)
    return len(samples), [said for number in dead if (said := _silence(samples, number, first, levels))]


def _one_sound(samples: Samples, first: int) -> tuple[int, list[str]]:
    samples[0] = samples[first]
    return 1, [f"the {len(samples)} channels have the same sound: it was heard once, and nobody can be told apart"]


def _silence(samples: Samples, number: int, first: int, levels: list[float]) -> str:
    """Silence a track; "" where it was silent before."""
    if levels[number] == 0.0:
        return ""
    samples[number] = 0.0
    below = -_db(levels[number], levels[first])
    return f"channel {number} has no voice of its own ({below:.0f} dB below channel {first}): taken as silent"


def _share(of: Samples, track: Samples) -> float:
    """How much of another track is in this one, as a factor: least squares, without delay."""
    power = float(np.einsum("n,n->", of, of, dtype=np.float64))
    return float(np.einsum("n,n->", of, track, dtype=np.float64)) / power


def _loudest(track: Samples, stretch: int, other: Samples | None = None, share: float = 0.0) -> float:
    """The level (RMS) of a track's loudest stretch, without the other's share in it."""
    power = 0.0
    for start in range(0, len(track), stretch):
        part = track[start : start + stretch].astype(np.float64)
        if other is not None:
            part -= share * other[start : start + stretch]
        power = max(power, float(np.dot(part, part)) / stretch)
    return float(np.sqrt(power))


def _db(level: float, reference: float) -> float:
    return 20.0 * float(np.log10(max(level / reference, 1e-10)))
