"""What a plan will take: groups by need, time by earlier runs alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlxbatch import budget
from mlxbatch.engines.base import Footprint
from mlxbatch.history import RunRow
from mlxbatch.prediction import CONDITIONS, Group, groups, memory_limit, pace
from mlxbatch.types import Item, Planned, Probed

WANTED = {
    "host": "mac",
    "sha": "1",
    "profile": "apple",
    "dtype": "float16",
    "batch_size": 8,
    "channels": "mix",
    "vad": False,
    "words": False,
    "encoder_context": "auto",
}


def run(audio: float | None, wall: float | None, **other: Any) -> RunRow:
    return RunRow("x", "", WANTED | other, "", {"audio_seconds": audio, "wall_seconds": wall})


def planned(*groups: tuple[float, ...]) -> list[Planned]:
    return [
        Planned(Probed(Item(f"{number}{n}", Path(), Path()), seconds, 8000, 1), number)
        for number, lengths in enumerate(groups)
        for n, seconds in enumerate(lengths)
    ]


def test_a_group_s_memory_is_the_weights_and_what_its_recordings_need() -> None:
    footprint = Footprint(1000, lambda seconds: int(seconds) * 10)
    first, second = groups(planned((30.0, 20.0), (5.0,)), footprint)
    assert (first, first.seconds, first.padded) == (Group(1, (30.0, 20.0), (1, 1), 1500), 50.0, 60.0)
    assert (second, second.seconds, second.padded) == (Group(2, (5.0,), (1,), 1050), 5.0, 5.0)
    working = Footprint(1000, footprint.need, lambda longest: int(longest))
    assert [group.memory for group in groups(planned((30.0, 20.0), (5.0,)), working)] == [1530, 1055]
    assert [group.memory for group in groups(planned((1.0,)), None)] == [None]
    assert groups([], footprint) == []


def test_the_pace_is_audio_by_time_over_runs_under_the_same_conditions() -> None:
    found = pace([run(100, 10), run(300, 10), *(run(9e9, 1, **{name: "other"}) for name in CONDITIONS)], WANTED)
    assert found is not None
    assert (found.rtfx, found.runs) == (20.0, 2)


@pytest.mark.parametrize("useless", [run(0, 10), run(None, 10), run(10, 0), RunRow("x", "", WANTED, None, None)])
def test_a_run_that_tells_nothing_is_left_out(useless: RunRow) -> None:
    assert pace([useless], WANTED) is None
    found = pace([run(100, 10), useless], WANTED)
    assert found is not None
    assert (found.rtfx, found.runs) == (10.0, 1)


def test_only_the_latest_runs_count() -> None:
    found = pace([*(run(1, 1000) for _ in range(50)), *(run(100, 10) for _ in range(10))], WANTED)
    assert found is not None
    assert (found.rtfx, found.runs) == (10.0, 10)


def test_a_run_of_an_older_version_has_no_such_facts() -> None:
    assert pace([RunRow("x", "", {"sha": "1"}, "", {"audio_seconds": 5, "wall_seconds": 1})], WANTED) is None


def test_the_limit_is_the_run_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "machine_memory", lambda: 8 * 10**9)
    assert memory_limit("cpu", "75%") == 6 * 10**9
    assert memory_limit("cpu", "12GB") == 8 * 10**9
    assert memory_limit("gpu", "12GB") == 12 * 10**9
    assert memory_limit("gpu", "75%") is None
