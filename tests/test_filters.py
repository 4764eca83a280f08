"""Moments as they are written on the command line."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mlxbatch.errors import UsageError
from mlxbatch.filters import parse_moment

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("24h", NOW - 86_400),
        ("7d", NOW - 7 * 86_400),
        ("1h30m", NOW - 5400),
        ("0s", NOW),
        ("2026-11-30T12:00:00Z", NOW - 86_400),
        ("2026-11-30T13:00+01:00", NOW - 86_400),
        ("2026-11-30", datetime(2026, 11, 30).astimezone().timestamp()),
        ("20261130", datetime(2026, 11, 30).astimezone().timestamp()),
        ("2026-11-30 06:30", datetime(2026, 11, 30, 6, 30).astimezone().timestamp()),
    ],
)
def test_durations_and_dates(text: str, expected: float) -> None:
    assert parse_moment(text, NOW) == expected


def test_a_file_s_last_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("stamp", "24h"):
        Path(name).touch()
        os.utime(name, (1000.5, 1000.5))
    assert parse_moment("stamp", NOW) == 1000.5
    assert parse_moment("./24h", NOW) == 1000.5
    assert parse_moment("24h", NOW) == NOW - 86_400


@pytest.mark.parametrize("text", ["", "yesterday", "2026", "90", "2026-13-01", "-1h", "missing/file", "a\0b", "99999d"])
def test_anything_else_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(UsageError, match="is no moment, and no file that can be looked at: write it as 24h or 7d, as"):
        parse_moment(text, NOW)


def test_what_is_still_to_come_is_refused() -> None:
    with pytest.raises(UsageError, match="'2027-01-01' is still to come: nothing can be newer"):
        parse_moment("2027-01-01", NOW)
