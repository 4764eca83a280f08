"""How much of a window's 30 s a Whisper's encoder gets: its own length whole, and a sample of the silence after that.

A Whisper is trained on 30 s, padded with silence; cut shorter it mishears. But its attention costs the square of the
length, and most windows are short. Silence differs from place to place by its position alone, so a few positions stand
for the rest, each counting for as many as it stands for (log of their number is added to the scores of attention: as
if the same key stood there that often; Bolya and Hoffman 2023, "Token Merging for Fast Stable Diffusion" and Bolya et
al. 2022, "Token Merging: Your ViT But Faster", call it proportional attention).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

# Log-mel frames, 10 ms each; the encoder's second convolution makes one position of two.
WINDOW_FRAMES = 3000
FRAMES_PER_POSITION = 2


@dataclass(frozen=True, slots=True)
class Context:
    """`margin` seconds of silence stay whole behind a window's own length, which is rounded up to whole `bucket` s.

    Of the rest one position stands for `stride`.
    """

    margin: float = 2.0
    bucket: float = 1.0
    stride: int = 16

    def __str__(self) -> str:
        return f"margin {self.margin:g} s, bucket {self.bucket:g} s, stride {self.stride}"

    def frames(self, frames: int) -> int:
        """How many frames are kept whole of a window that has so many of its own: an even number, at most 3000."""
        bucket = 2 * max(1, round(self.bucket * 50))
        whole = math.ceil((frames + self.margin * 100) / bucket) * bucket
        return min(whole, WINDOW_FRAMES)

    def stretches(self, frames: int) -> list[range]:
        """The positions after so many whole frames, in stretches for which one stands."""
        first, last = frames // FRAMES_PER_POSITION, WINDOW_FRAMES // FRAMES_PER_POSITION
        return [range(start, min(start + self.stride, last)) for start in range(first, last, self.stride)]

    def positions(self, frames: int) -> int:
        """How many positions the encoder has of a window that has so many frames of its own."""
        whole = self.frames(frames)
        return whole // FRAMES_PER_POSITION + len(self.stretches(whole))


# Every window with all of its 30 s.
FULL = Context(bucket=WINDOW_FRAMES / 100)
