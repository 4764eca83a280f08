"""The long version: 200 kills on the fake engine, 20 on real weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kills import RealVictim, Victim, kill_often


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_killed_two_hundred_times(tmp_path: Path) -> None:
    kill_often(Victim(tmp_path, 60), 200, print)


@pytest.mark.soak
@pytest.mark.real
@pytest.mark.timeout(3600)
def test_killed_twenty_times_on_real_weights(tmp_path: Path, whisper_base: Path) -> None:
    kill_often(RealVictim(tmp_path, 13), 20, print)
