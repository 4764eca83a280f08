"""Sound that changes its rate or channels on the way, and blocks of even size."""

from __future__ import annotations

import numpy as np
import pytest

from mlxbatch.uniform import gathered, uniform, without_garbage

from .sounds import loudness, tone


def test_what_does_not_change_passes_untouched() -> None:
    notes: list[str] = []
    blocks = [np.ones((5, 2), np.float32), np.zeros((3, 2), np.float32)]
    found = [*uniform([(block, 8000) for block in blocks], 8000, 2, notes)]
    assert [len(block) for block in found] == [5, 3, 0]
    assert all(block is given for block, given in zip(found, blocks, strict=False))
    assert notes == []


@pytest.mark.parametrize(
    ("there", "wanted", "row"),
    [(1, 2, [1, 1]), (2, 1, [1.5]), (3, 2, [1, 2]), (2, 3, [1, 2, 0]), (1, 1, [1])],
)
def test_channels_are_fitted(there: int, wanted: int, row: list[float]) -> None:
    block = np.tile(np.arange(1, there + 1, dtype=np.float32), (4, 1))
    found = np.concatenate([*uniform([(block, 8000)], 8000, wanted, [])])
    np.testing.assert_array_equal(found, np.tile(np.float32(row), (4, 1)))


def test_rates_are_brought_to_the_first_and_back() -> None:
    parts = [(tone(1.0, rate)[:, None], rate) for rate in (16000, 48000, 8000, 16000)]
    notes: list[str] = []
    found = np.concatenate([*uniform(parts, 16000, 1, notes)])
    assert len(found) == pytest.approx(4 * 16000, abs=4)
    assert loudness(found) == pytest.approx(0.5 / np.sqrt(2), rel=0.01)
    assert notes == [
        "the sample rate changes from 16000 to 48000 at 1.00 s",
        "the sample rate changes from 48000 to 8000 at 2.00 s",
        "the sample rate changes from 8000 to 16000 at 3.00 s",
    ]


def test_a_stream_that_changes_all_the_time_says_so_a_few_times() -> None:
    notes: list[str] = []
    blocks = [(np.zeros((10, 1 + i % 2), np.float32), 8000) for i in range(1000)]
    assert sum(len(block) for block in uniform(blocks, 8000, 1, notes)) == 10000
    assert len(notes) == 4
    assert notes[-1] == "it goes on changing its sample rate or channels"


def test_small_blocks_are_gathered_and_empty_ones_left_out() -> None:
    blocks = [np.full((count, 1), count, np.float32) for count in [0, 5000, 0, 5000, 100, 0]]
    assert [len(block) for block in gathered(blocks)] == [10000, 100]
    assert [*gathered([])] == []


def test_floats_that_cannot_be_sound_are_no_numbers() -> None:
    block = np.float32([[1.0, -3e38, 2.0**31, np.inf, np.nan]])
    found = without_garbage(block)
    np.testing.assert_array_equal(np.isnan(found), [[False, True, False, True, True]])
