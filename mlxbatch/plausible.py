"""What can be sound at all: the bounds beyond which a header, or a sample, is damaged."""

from __future__ import annotations

# Hz. Below, no speech is left, and each sample would become thousands; above, nothing was ever recorded, and a
# resampler's filters grow without bound.
LOWEST_RATE, HIGHEST_RATE = 1000, 1_000_000

# A second takes more bytes than these: digital silence in the densest codecs does.
BYTES_PER_SECOND = 16

# A float beyond the scale of 32-bit numbers is one in whose exponent a bit fell over.
LARGEST_FLOAT = 2.0**32
