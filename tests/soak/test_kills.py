"""The long version: 200 kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kills import Victim, kill_often


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_killed_two_hundred_times(tmp_path: Path) -> None:
    kill_often(Victim(tmp_path, 60), 200, print)
