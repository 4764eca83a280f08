"""A run's figures: of its summary, or, where it was killed, the same from its log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlxbatch.report.figures import Figures, figures
from mlxbatch.report.log import Log, parse_log, read_log
from mlxbatch.runlog import log_path

from .conftest import busy_night
from .nights import Night, write


def _log(out: Path, night: Night) -> Log:
    found = read_log(log_path(write(out, night), night.id))
    assert found is not None
    return found


def test_of_a_run_that_ended(tmp_path: Path) -> None:
    log = _log(tmp_path, busy_night())
    found = figures(log.end, log)
    assert (found.done, found.failed, found.quarantined, found.skipped, found.left) == (24, 6, 1, 2, 2)
    assert (found.worked, found.items) == (32, 34)
    assert (found.windows, found.tokens, found.p50) == (96, 96 * 90, 1.25)
    # Four times 40, 80 ... 200 s, then 40 to 160 s; 30 files were worked on or failed, in 20 s each.
    assert found.audio_seconds == pytest.approx(2800)
    assert (found.wall_seconds, found.rtfx) == (pytest.approx(602), pytest.approx(2800 / 602))
    assert found.stage_seconds == {"encode": pytest.approx(180), "decode": pytest.approx(360)}
    assert (found.peak_bytes, found.peak_rss_bytes) == (5.4e9, pytest.approx(6.21e9))
    assert (found.cpu, found.gpu, found.gpu_max) == (pytest.approx(0.8, abs=0.1), 0.5, 0.5)
    assert (found.deaths, found.renewals, found.stalls, found.leaks) == (1, 1, 0, 1)
    assert found.governor == {"hold": 2, "shrink": 1}
    assert found.skip_reasons == {"done on 2026-11-01": 1, "done on 2026-11-02": 1}


def test_of_a_run_that_was_killed_the_same_from_its_log(tmp_path: Path) -> None:
    ended = _log(tmp_path / "a", busy_night())
    whole = figures(ended.end, ended)
    killed = _log(tmp_path / "b", replace(busy_night(), end=False))
    found = figures({}, killed)
    # Not in the log: how long each window took, its tokens; the peak is that of the samples.
    lost = ("p50", "p95", "p99", "tokens")
    unlike = {name for name in Figures.__slots__ if getattr(found, name) != getattr(whole, name)}
    assert unlike <= {*lost, "wall_seconds", "rtfx", "peak_bytes", "peak_rss_bytes", "wait_fraction", "stage_seconds"}
    assert all(getattr(found, name) is None for name in lost)
    assert found.wall_seconds == pytest.approx(whole.wall_seconds)
    assert found.rtfx == pytest.approx(whole.rtfx)
    assert found.wait_fraction == pytest.approx(whole.wait_fraction)
    assert found.stage_seconds == pytest.approx(whole.stage_seconds)
    assert found.peak_bytes == pytest.approx(whole.peak_bytes, rel=0.05)


def test_of_nothing() -> None:
    assert figures({}, None) == Figures(known=False, windows=0, audio_seconds=0.0)
    assert figures({}, Log()).known


def test_of_a_run_that_only_skipped() -> None:
    found = figures({"outcome": "finished", "skipped": 3, "peak_bytes": 0, "rtfx": 0.0}, Log())
    assert (found.items, found.worked, found.peak_bytes) == (3, 0, None)


@pytest.mark.parametrize(
    ("utilisation", "cpu", "most"),
    [
        ({"cpu": 0.5, "gpu": None}, 0.5, None),
        ({"cpu": {"mean": 0.5, "max": 0.9}}, 0.5, 0.9),
        ({}, None, None),
        (None, None, None),
    ],
)
def test_use_of_the_machine_where_the_log_is_gone(utilisation: Any, cpu: float | None, most: float | None) -> None:
    found = figures({"outcome": "finished", "utilisation": utilisation}, None)
    assert (found.cpu, found.cpu_max, found.gpu) == (cpu, most, None)


def test_files_quarantined_before_are_counted_among_the_skipped() -> None:
    lines = [
        b'{"event": "item", "t": 1, "source": "a", "status": "skipped", "why": "quarantined on 2026-11-01: signal 11"}',
        b'{"event": "item", "t": 1, "source": "b", "status": "failed", "quarantined": true}',
        b'{"event": "item", "t": 1, "source": "c", "status": "failed", "quarantined": false}',
    ]
    assert figures({}, parse_log(lines)).quarantined == 2


def test_the_governors_steps_where_the_log_is_gone() -> None:
    assert figures({"outcome": "finished", "governor": {"open": 2, "hold": 3}}, None).governor == {"hold": 3}


@pytest.mark.parametrize("summary", [{"done": "many"}, {"stage_seconds": 3}, {"window_latency_seconds": [1]}])
def test_a_summary_of_another_shape_is_not_known(summary: dict[str, Any]) -> None:
    found = figures(summary, None)
    assert (found.done, found.p50, found.stage_seconds) == (0, None, {})
