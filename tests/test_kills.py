"""`kill -9` at random moments costs the work in flight and nothing else."""

from __future__ import annotations

from pathlib import Path

from tests.kills import Victim, kill_often


def test_killed_at_random_moments(tmp_path: Path) -> None:
    kill_often(Victim(tmp_path, 24), 4, print)
