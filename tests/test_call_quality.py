"""The measure itself: what it counts as right, and what not."""

from __future__ import annotations

import pytest

from tests.call_quality import Spoken, label_share, turn_starts

CALL = [
    Spoken(0, 0.0, 2.0, "Good morning, how can I help you?"),
    Spoken(1, 2.5, 4.0, "My phone is broken."),
    Spoken(0, 4.5, 6.0, "I see."),
]


def test_a_perfect_transcript() -> None:
    assert (label_share(CALL, CALL), turn_starts(CALL, CALL)) == (1.0, 0.0)


def test_sides_that_were_swapped_are_all_wrong() -> None:
    swapped = [Spoken(1 - one.channel, one.start, one.end, one.text) for one in CALL]
    assert label_share(CALL, swapped) == 0.0


def test_the_other_sides_words_are_wrong_and_misheard_ones_right() -> None:
    heard = [CALL[0], Spoken(1, 2.5, 4.0, "My bone is broken"), Spoken(1, 4.5, 6.0, "I see")]
    assert label_share(CALL, heard) == pytest.approx(11 / 13)


def test_words_of_nobody_are_wrong_where_nobody_speaks() -> None:
    assert label_share(CALL, [*CALL, Spoken(1, 8.0, 9.0, "Thank you.")]) == pytest.approx(13 / 15)


def test_starts_are_compared_turn_by_turn() -> None:
    late = [Spoken(one.channel, one.start + 0.4, one.end, one.text) for one in CALL]
    assert turn_starts(CALL, late) == pytest.approx(0.4)
    assert turn_starts(CALL, CALL[:1]) == pytest.approx(4.5)  # turns are missing
    extra = [Spoken(n % 2, 10.0 + n, 11.0 + n, "x") for n in range(8)]
    assert turn_starts(CALL, [*CALL, *extra]) > 5.0  # there are too many
    assert turn_starts(CALL, []) == float("inf")
