"""A run beside earlier ones: medians of those that are comparable, and what was changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlxbatch.report.compare import Against, Change, against, changes, comparable
from mlxbatch.report.figures import Figures
from mlxbatch.report.run import Run, State, read_history

from .nights import SHA, night_id


def run(name: str, rtfx: float | None, state: State = "finished", peak: float | None = None, **facts: Any) -> Run:
    told = {"model": "m", "sha": SHA, "profile": "p", "version": "1"} | facts
    return Run(name, "", None, state, "", told, Figures(rtfx=rtfx, peak_bytes=peak))


def test_the_median_of_comparable_runs() -> None:
    earlier = [run("a", 8.0), run("b", 12.0, peak=2e9), run("c", 11.0), run("d", 100.0, profile="q")]
    earlier += [run("e", 50.0, sha="f" * 64), run("f", 40.0, state="killed"), run("g", None), run("h", 0.0)]
    this = run("z", 5.5, peak=3e9)
    assert [other.id for other in comparable(this, earlier)] == ["a", "b", "c"]
    found = against(this, earlier)
    assert found == {"rtfx": Against(5.5, 11.0, 3), "peak_bytes": Against(3e9, 2e9, 1)}
    assert (found["rtfx"].ratio, found["peak_bytes"].ratio) == (0.5, 1.5)


@pytest.mark.parametrize("this", [run("z", None), run("z", 3.0, profile="q")])
def test_nothing_to_compare(this: Run) -> None:
    assert against(this, [run("a", 8.0)]) == {}


def test_what_was_changed_from_one_run_to_the_next() -> None:
    runs = [run("a", 1.0), run("b", 1.0), run("c", 1.0, profile="q", sha="f" * 64), run("d", 1.0, profile="q")]
    assert changes(runs) == [
        Change("c", "profile", "p", "q"),
        Change("c", "model", "m (01234567)", "m (ffffffff)"),
        Change("d", "model", "m (ffffffff)", "m (01234567)"),
    ]


def test_what_a_run_does_not_tell_is_no_change() -> None:
    runs = [run("a", 1.0), run("b", 1.0, batch_size=8), run("c", 1.0, batch_size=16), run("d", 1.0, version=None)]
    assert changes(runs) == [Change("c", "batch size", "8", "16")]


def test_real_nights(nights: Path) -> None:
    history = read_history(nights)
    assert [(change.run, change.what) for change in changes([*history.earlier, history.run])] == [
        (night_id(6), "profile"),
        (night_id(9), "model"),
        (night_id(9), "version"),
    ]
    assert against(history.run, history.earlier) == {}
    assert against(history.earlier[-1], history.earlier[:-1])["rtfx"].runs == 2
