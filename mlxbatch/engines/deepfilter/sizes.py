"""What a DeepFilterNet3's config.json says that the computation depends on. No MLX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

# Of the model's family only this form is computed: config.json's value for each key.
FORM = {
    "conv_kernel": [1, 3],
    "convt_kernel": [1, 3],
    "conv_kernel_inp": [3, 3],
    "enc_concat": False,
    "mask_pf": False,
    "df_gru_skip": "groupedlinear",
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """Samples: `fft` in a frame, `hop` from one to the next. `widths`: bins of each band.

    The lowest `low` bins are filtered, of `order` frames each, up to `filter_ahead` after their own; the network's
    frame is found from features of up to `ahead` later ones. `pathway`: frames that its longest convolution spans.
    """

    rate: int
    fft: int
    hop: int
    widths: tuple[int, ...]
    low: int
    order: int
    ahead: int
    filter_ahead: int
    channels: int
    pathway: int

    @property
    def bins(self) -> int:
        return self.fft // 2 + 1

    @property
    def bands(self) -> int:
        return len(self.widths)

    @property
    def taps_behind(self) -> int:
        """Frames before its own that a filtered frame is made of."""
        return self.order - 1 - self.filter_ahead

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """ValueError: a model of another form, or sizes that do not fit together. KeyError: a size is missing."""
        for key, value in FORM.items():
            if config[key] != value:
                raise ValueError(f"{key} is {config[key]!r}, and {value!r} is what can be computed")
        sizes = cls(
            rate=config["sample_rate"],
            fft=config["fft_size"],
            hop=config["hop_size"],
            widths=tuple(config["erb_widths"]),
            low=config["nb_df"],
            order=config["df_order"],
            ahead=config["conv_lookahead"],
            filter_ahead=config["df_lookahead"],
            channels=config["conv_ch"],
            pathway=config["df_pathway_kernel_size_t"],
        )
        sizes._check(config["nb_erb"])
        return sizes

    def _check(self, bands: int) -> None:
        if self.fft != 2 * self.hop:
            raise ValueError(f"hop_size is {self.hop}, not half of fft_size, {self.fft}")
        if len(self.widths) != bands or sum(self.widths) != self.bins:
            raise ValueError(f"erb_widths are not {bands} bands of {self.bins} bins")
        if not 0 <= self.filter_ahead <= self.ahead or self.filter_ahead >= self.order:
            raise ValueError(f"df_lookahead {self.filter_ahead} does not fit conv_lookahead {self.ahead}")
        if bands % 4 or self.low % 2:
            raise ValueError(f"nb_erb {bands} is not divisible by 4, or nb_df {self.low} not by 2")
