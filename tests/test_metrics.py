"""The figures of a run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxbatch.metrics import RunStats, busy, percentile, percentiles, rtfx, step_taken
from mlxbatch.types import Done, Failed, Item, Readings, Skipped, Span, WindowStats

ITEM = Item("a", Path("in/a.wav"), Path("a"))


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.sampled_from([0, 50, 95, 99, 100]))
def test_percentiles_are_those_of_numpy(values: list[float], share: int) -> None:
    assert percentile(values, share) == pytest.approx(float(np.percentile(values, share)), rel=1e-9, abs=1e-9)


def test_percentiles_of_known_values_and_of_nothing() -> None:
    assert percentiles(range(101)) == {"p50": 50, "p95": 95, "p99": 99}
    assert percentiles([2.0]) == {"p50": 2.0, "p95": 2.0, "p99": 2.0}
    assert percentiles([]) == {"p50": None, "p95": None, "p99": None}


def test_rtfx_is_audio_seconds_per_wall_second() -> None:
    assert rtfx(3600, 360) == 10
    assert rtfx(1, 0) is None
    assert rtfx(0, 360) is None, "nothing to do is no speed"


def spans(*bounds: tuple[float, float]) -> list[Span]:
    return [Span("encode", begin, end, 1) for begin, end in bounds]


@pytest.mark.parametrize(
    ("bounds", "seconds", "waited"),
    [
        ([(0, 1), (1, 2)], 2, 0.0),
        ([(0, 1), (3, 4)], 2, 0.5),
        ([(0, 4), (1, 2), (3, 5)], 5, 0.0),
        ([(3, 4), (0, 1), (0, 1)], 2, 0.5),
    ],
)
def test_the_wait_is_what_no_span_covers(bounds: list[tuple[float, float]], seconds: float, waited: float) -> None:
    assert busy(spans(*bounds)).seconds == seconds
    assert busy(spans(*bounds)).wait_fraction == waited


def test_without_time_there_is_no_wait_to_measure() -> None:
    assert busy([]).wait_fraction is None
    assert busy(spans((1, 1))).wait_fraction is None


def test_a_run_s_summary() -> None:
    now = [100.0]
    stats = RunStats(clock=lambda: now[0], found=6, not_taken={"waiting": 2})
    windows = (WindowStats(0.0, 30.0, 50, 2.0), WindowStats(30.0, 30.0, 70, 4.0, attempts=2))
    stats.add(Done(ITEM, (Path("a.txt"),), 60.0, windows, ("truncated",)))
    stats.add(Done(ITEM, (Path("a.srt"),), 60.0))
    stats.add(Failed(ITEM, "decode", "no audio"))
    stats.add(Skipped(ITEM, "done on 2026-11-30"))
    stats.add(Skipped(ITEM, "done on 2026-11-30"))
    stats.read(Readings(peak=500, rss=900, spans=(Span("encode", 0, 1, 4), Span("decode", 1, 3, 4))))
    stats.read(Readings(peak=300, rss=950, spans=(Span("encode", 2, 3, 4), Span("encode", 5, 6, 4))))
    stats.event("sample", {"cpu": 0.25, "gpu": None, "rss": 100})
    stats.event("sample", {"cpu": 0.75})
    for step in ("hold", "hold", "open"):
        stats.event("governor", {"step": step})
    stats.event("governor", {"step": "open", "was": "open", "why": "cache"})
    for what in ("died", "stalled", "died", "renewed"):
        stats.event("child", {"what": what, "cause": "x"})
    for what in ("active", "baseline"):
        stats.event("leak", {"what": what})
    for over in (True, False, True):
        stats.event("load", {"busy": over, "load": 9.0, "max_load": 8.0})
    stats.event("group", {"group": 0})
    now[0] = 106.0
    stats.stop()
    now[0] = 200.0
    assert stats.summary() == {
        "done": 2,
        "rendered": 1,
        "skipped": 2,
        "failed": 1,
        "quarantined": 0,
        "passed_over": 0,
        "left": 1,
        "not_taken": {"waiting": 2},
        "warnings": 1,
        "audio_seconds": 60.0,
        "wall_seconds": 6.0,
        "rtfx": 10.0,
        "windows": 2,
        "tokens": 120,
        "window_latency_seconds": {"p50": 3.0, "p95": pytest.approx(3.9), "p99": pytest.approx(3.98)},
        "peak_bytes": 500,
        "peak_rss_bytes": 950,
        "wait_fraction": pytest.approx(2 / 6),
        "stage_seconds": {"encode": 3.0, "decode": 2.0},
        "skip_reasons": {"done on 2026-11-30": 2},
        "failures": [{"path": "in/a.wav", "stage": "decode", "error": "no audio"}],
        "utilisation": {"cpu": 0.5, "gpu": None},
        "governor": {"hold": 2, "open": 1, "cache": 1},
        "overloads": 2,
        "deaths": 2,
        "stalls": 1,
        "renewals": 1,
        "leaks": 2,
    }
    assert stats.governor_step == "open"


def test_a_run_with_nothing_to_do_has_no_speed() -> None:
    now = [100.0]
    stats = RunStats(clock=lambda: now[0], found=1)
    stats.add(Skipped(ITEM, "done on 2026-11-30"))
    now[0] = 101.0
    assert (stats.summary()["rtfx"], stats.summary()["wall_seconds"]) == (None, 1.0)


def test_files_given_up_before_are_counted_among_the_skipped() -> None:
    stats = RunStats(found=3)
    stats.add(Failed(ITEM, "infer", "killed", quarantined=True))
    stats.add(Skipped(ITEM, "quarantined: killed", quarantined=True))
    stats.add(Skipped(ITEM, "quarantined files may have odd names", quarantined=False))
    summary = stats.summary()
    assert (summary["quarantined"], summary["passed_over"], summary["skipped"], summary["left"]) == (1, 1, 2, 0)


@pytest.mark.parametrize(
    ("facts", "step"),
    [
        ({"step": "open", "was": "open", "why": "cache"}, "cache"),
        ({"step": "hold", "was": "hold", "why": "cache"}, "cache"),
        ({"step": "hold", "was": "open", "why": "cache"}, "hold"),
        ({"step": "open", "was": "open", "why": "memory"}, "open"),
        ({"step": "reclaim"}, "reclaim"),
    ],
)
def test_a_cache_that_is_given_back_is_no_step(facts: dict[str, str], step: str) -> None:
    stats = RunStats()
    stats.event("governor", facts)
    assert (step_taken(facts), dict(stats.governor)) == (step, {step: 1})
    assert stats.governor_step == facts["step"]


def test_a_quarantined_failure_is_counted_twice_over_and_memory_between_replies_once() -> None:
    stats = RunStats(found=1)
    stats.add(Failed(ITEM, "infer", "the engine's process was killed", quarantined=True))
    stats.event("sample", {"rss": 700, "cpu": None})
    assert (stats.failed, stats.quarantined, stats.left, stats.peak_rss) == (1, 1, 0, 700)
    assert stats.summary()["utilisation"] == {"cpu": None, "gpu": None}


def test_the_summary_of_nothing_and_of_odd_names_is_json() -> None:
    stats = RunStats()
    stats.add(Failed(Item("a", Path(os.fsdecode(b"\xff.wav")), Path("a")), "probe", "x"))
    text = json.dumps(stats.summary())
    assert json.loads(text)["failures"][0]["path"] == "\\xff.wav"
    assert stats.summary()["wait_fraction"] is None
