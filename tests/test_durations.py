"""Durations: what is taken, what is refused, and that they can be written as they are read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxbatch.durations import as_text, parse_duration
from mlxbatch.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86_400), ("1h30m", 5400), ("1.5h", 5400), ("45", 45)),
        *(("0", 0), ("0.5", 0.5), (" 2H ", 7200), ("1d12h", 129_600), ("3650d", 315_360_000)),
    ],
)
def test_what_is_taken(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", " ", "h", "-1", "-1h", "2 h", "2h 30m", "2w", "1e3", "1,5h", "inf", "nan", "٣s", "in/", "2h\x1b[31m"]
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"not a duration: '.*write it as 90s, 10m, 2h, 1d or 1h30m") as caught:
        parse_duration(text)
    assert "\x1b" not in str(caught.value)


def test_longer_than_ten_years_is_a_slip() -> None:
    with pytest.raises(UsageError, match="longer than ten years"):
        parse_duration("9999999999999h")


@given(st.integers(0, 3650 * 86_400))
def test_written_as_it_is_read(seconds: int) -> None:
    assert parse_duration(as_text(seconds)) == seconds
