"""How loud a recording has to be made for the detector, which hardly hears what is very quiet. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# A sentence whose peak is at -52 dB was heard for 5.1 of 7.5 s as it is, for 7.5 s at ten times that. Silence, noise,
# tones and hold music stay below the threshold even a thousand times as loud.
PEAK, MOST = 0.5, 10.0


def gain(samples: NDArray[np.float32]) -> float:
    """What a recording is multiplied with to have its peak at half of full scale, at least 1 and at most 10."""
    peak = max(float(samples.max(initial=0.0)), -float(samples.min(initial=0.0)))
    return min(MOST, max(1.0, PEAK / peak)) if peak > 0 else 1.0
