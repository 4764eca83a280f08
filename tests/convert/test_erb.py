from __future__ import annotations

import numpy as np
import pytest

from mlxbatch.convert.erb import erb_widths, filterbanks

# Of the published models: config.ini's 48 kHz, 960 bins of transform, 32 bands of 2 bins at the fewest.
PUBLISHED = [*[2] * 13, 5, 5, 7, 7, 8, 10, 12, 13, 15, 18, 20, 24, 28, 31, 37, 42, 50, 56, 67]


def test_the_published_models_bands() -> None:
    assert erb_widths(48_000, 960, 32, 2) == PUBLISHED


@pytest.mark.parametrize(("rate", "fft", "bands", "least"), [(16_000, 320, 32, 2), (24_000, 480, 20, 1)])
def test_bands_cover_every_bin_once(rate: int, fft: int, bands: int, least: int) -> None:
    widths = erb_widths(rate, fft, bands, least)
    assert sum(widths) == fft // 2 + 1
    assert (len(widths), min(widths) >= least) == (bands, True)


def test_one_bank_takes_means_and_the_other_gives_them_back() -> None:
    bank, inverse = filterbanks([1, 3])
    np.testing.assert_allclose(np.array([5, 1, 2, 3], np.float32) @ bank, [5, 2])
    assert (np.array([5, 2], np.float32) @ inverse).tolist() == [5, 2, 2, 2]
