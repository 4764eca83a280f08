"""When a recording that ends early is worth a warning, and its words."""

from __future__ import annotations

import pytest

from mlxbatch.truncation import truncation


@pytest.mark.parametrize(
    ("decoded", "announced", "why", "words"),
    [
        (3.0, None, "", None),
        (3.0, 3.0, "", None),
        (3.0, 2.0, "", None),
        (2.95, 3.0, "lost sync", None),
        (2.0, 3.0, "", "truncated: 2.00 s decoded of the 3.00 s in its header"),
        (2.0, 3.0, "lost sync", "truncated: 2.00 s decoded of the 3.00 s in its header (lost sync)"),
        (0.0, float("inf"), "", "truncated: nothing is left of the sound that its header announces"),
    ],
)
def test_words(decoded: float, announced: float | None, why: str, words: str | None) -> None:
    assert truncation(decoded, announced, why) == words
