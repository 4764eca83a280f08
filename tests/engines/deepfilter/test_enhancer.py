"""Rows through the network: the same in any portions and any company, and as many samples as came."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxbatch.engines.deepfilter.enhancer import BLOCK, Row, enhance, ready
from mlxbatch.engines.deepfilter.frames import NoSound
from mlxbatch.engines.deepfilter.network import Network
from tests.engines.deepfilter.tiny import SIZES, Array, network, noise, tensors

NET = network()
# 400 frames: four blocks.
LENGTH = 13_013
SOUND = noise(LENGTH)


def whole(sound: Array, net: Network = NET, block: int = BLOCK) -> Array:
    return joined(enhance(net, [sound[None]], block))[0]


def joined(given: Iterable[tuple[int, Array | NoSound]], rows: int = 1) -> list[Array]:
    parts: list[list[Array]] = [[np.zeros(0, np.float32)] for _ in range(rows)]
    for row, part in given:
        assert not isinstance(part, NoSound), part
        parts[row].append(part)
    return [np.concatenate(found) for found in parts]


def portions(sound: Array, cuts: Iterable[int]) -> list[Array]:
    return np.split(sound, sorted(cuts), axis=-1)


ENHANCED = whole(SOUND)


def test_what_comes_out_is_not_what_came_in() -> None:
    assert np.isfinite(ENHANCED).all()
    assert 0.1 < np.std(ENHANCED) / np.std(SOUND) < 10
    assert abs(np.corrcoef(ENHANCED, SOUND)[0, 1]) < 0.99


@given(st.lists(st.integers(0, LENGTH), max_size=12))
@settings(max_examples=12)
def test_samples_may_come_in_any_portions(cuts: list[int]) -> None:
    found = joined(enhance(NET, portions(SOUND[None], cuts)))[0]
    np.testing.assert_array_equal(found, ENHANCED)


@given(st.integers(1, 150))
@settings(max_examples=12)
def test_the_state_that_is_carried_is_exact(block: int) -> None:
    """Blocks fall elsewhere: nothing but a product's rounding tells them."""
    once = whole(SOUND[:4_000], block=150)
    found = whole(SOUND[:4_000], block=block)
    np.testing.assert_allclose(found, once, atol=2e-6 * float(np.abs(once).max()))


def test_a_row_gets_in_a_batch_what_it_gets_alone() -> None:
    sounds = np.stack([SOUND, noise(LENGTH, 1), np.zeros_like(SOUND), 30 * noise(LENGTH, 2)])
    together = joined(enhance(NET, portions(sounds, [700, 9_000])), rows=4)
    for sound, found in zip(sounds, together, strict=True):
        alone = whole(sound)
        np.testing.assert_allclose(found, alone, atol=2e-6 * float(np.abs(alone).max()))


def test_rows_begin_and_end_when_they_like() -> None:
    """As files do that take the places of others."""
    lengths = {0: 10_000, 1: 3_210, 2: 7_000}
    rows = {0: Row(NET), 1: Row(NET)}
    found: dict[int, list[Array]] = {0: [], 1: [], 2: []}

    def give() -> None:
        for key, samples in ready(NET, rows):
            found[key].append(samples)

    for key, row in rows.items():
        row.feed(noise(lengths[key], key))
    rows[1].end()
    give()
    rows[2] = Row(NET)
    rows[2].feed(noise(lengths[2], 2))
    give()
    for key in (0, 2):
        rows[key].end()
    give()
    for key, length in lengths.items():
        alone = whole(noise(length, key))
        np.testing.assert_allclose(np.concatenate(found[key]), alone, atol=2e-6 * float(np.abs(alone).max()))


def test_samples_come_as_soon_as_they_are_known() -> None:
    """Of what was fed, all but a block that is not whole, and what the network looks ahead."""
    fed = given_back = 0
    row = Row(NET)
    for portion in portions(SOUND, range(500, LENGTH, 500)):
        row.feed(portion)
        fed += len(portion)
        given_back += sum(len(samples) for _, samples in ready(NET, {0: row}))
        assert fed - given_back < (BLOCK + SIZES.ahead + 2) * SIZES.hop


@pytest.mark.parametrize("length", [0, 1, 2, 31, 32, 33, 63, 64, 65, 320, 32 * BLOCK - 1, 32 * BLOCK + 1])
def test_as_many_samples_come_out_as_went_in(length: int) -> None:
    found = whole(noise(length))
    assert found.shape == (length,)
    assert np.isfinite(found).all()


class Passing(Network):
    """Lets everything through: each band as it is, and of each filter the tap of its own frame."""

    def __call__(self, levels: Array, bins: Array, state: Any) -> Any:
        gains = np.ones(levels.shape, np.float32)
        filters = np.zeros((*bins.shape[:3], SIZES.order, 2), np.float32)
        filters[..., SIZES.taps_behind, 0] = 1
        return gains, filters, state


PASSING = Passing(tensors(), SIZES)


@given(st.integers(1, 4_000), st.lists(st.integers(0, 4_000), max_size=3), st.integers(1, 40))
@settings(max_examples=30)
def test_no_sample_moves(length: int, cuts: list[int], block: int) -> None:
    sound = noise(length)
    (found,) = joined(enhance(PASSING, portions(sound[None], cuts), block))
    np.testing.assert_allclose(found, sound, atol=1e-6)


def test_silence_stays_silence() -> None:
    assert np.abs(whole(np.zeros(LENGTH, np.float32))).max() == 0


def test_loud_sound_is_not_clipped() -> None:
    assert np.abs(whole(30 * SOUND)).max() > 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
def test_a_row_that_is_no_sound_does_not_touch_its_neighbours(bad: float) -> None:
    sounds = np.stack([SOUND, SOUND])
    sounds[0, 7_777] = bad
    given_back = list(enhance(NET, portions(sounds, [5_000, 12_000])))
    (error,) = [part for _, part in given_back if isinstance(part, NoSound)]
    assert str(error).startswith("sample 7777 is ")
    places = [row for row, _ in given_back]
    last = max(place for place, row in enumerate(places) if row == 0)
    assert isinstance(given_back[last][1], NoSound)
    (_, found) = joined(((row, part) for row, part in given_back if row == 1), rows=2)
    np.testing.assert_allclose(found, ENHANCED, atol=2e-6 * float(np.abs(ENHANCED).max()))


def test_no_chunks_give_nothing() -> None:
    assert list(enhance(NET, [])) == []
