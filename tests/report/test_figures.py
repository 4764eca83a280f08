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
    assert (found.done, found.failed, found.quarantined, found.skipped, found.left) == (24, 6, 2, 3, 2)
    assert (found.worked, found.items) == (32, 35)
    assert (found.windows, found.tokens, found.p50) == (96, 96 * 90, 1.25)
    # Four times 40, 80 ... 200 s, then 40 to 160 s; 30 files were worked on or failed, in 20 s each.
    assert found.audio_seconds == pytest.approx(2800)
    assert (found.wall_seconds, found.rtfx) == (pytest.approx(602), pytest.approx(2800 / 602))
    assert found.stage_seconds == {"encode": pytest.approx(180), "decode": pytest.approx(360)}
    assert (found.peak_bytes, found.peak_rss_bytes) == (5.4e9, pytest.approx(6.21e9))
    assert (found.cpu, found.gpu, found.gpu_max) == (pytest.approx(0.8, abs=0.1), 0.5, 0.5)
    assert (found.deaths, found.renewals, found.stalls, found.leaks, found.overloads) == (1, 1, 0, 2, 1)
    assert found.governor == {"hold": 2, "shrink": 1}
    assert found.skip_reasons == {"done on 2026-11-01": 1, "done on 2026-11-02": 1, "quarantined: signal 11": 1}


def test_of_a_run_that_was_killed_the_same_from_its_log(tmp_path: Path) -> None:
    ended = _log(tmp_path / "a", busy_night())
    whole = figures(ended.end, ended)
    killed = _log(tmp_path / "b", replace(busy_night(), end=False))
    found = figures({}, killed, busy_night().found)
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
    assert figures({}, None) == Figures(known=False, left=None, windows=0, audio_seconds=0.0)
    assert figures({}, Log()).known


def test_of_a_run_that_only_skipped() -> None:
    found = figures({"outcome": "finished", "skipped": 3, "peak_bytes": 0, "rtfx": 0.0}, Log())
    assert (found.items, found.worked, found.peak_bytes) == (3, 0, None)
    assert found.rtfx is None, "older versions wrote 0"


@pytest.mark.parametrize(("utilisation", "cpu"), [({"cpu": 0.5, "gpu": None}, 0.5), ({}, None), (None, None)])
def test_use_of_the_machine_where_the_log_is_gone(utilisation: Any, cpu: float | None) -> None:
    found = figures({"outcome": "finished", "utilisation": utilisation}, None)
    assert (found.cpu, found.cpu_max, found.gpu) == (cpu, None, None)


def test_files_quarantined_before_are_counted_among_the_skipped() -> None:
    lines = [
        b'{"event": "item", "t": 1, "source": "a", "status": "skipped", "why": "killed", "quarantined": true}',
        b'{"event": "item", "t": 1, "source": "b", "status": "failed", "quarantined": true}',
        b'{"event": "item", "t": 1, "source": "c", "status": "failed", "quarantined": false}',
        b'{"event": "item", "t": 1, "source": "d", "status": "skipped", "why": "quarantined.wav has moved"}',
    ]
    assert figures({}, parse_log(lines)).quarantined == 2
    summary = {"outcome": "finished", "quarantined": 1, "passed_over": 10, "skipped": 10}
    assert figures(summary, None).quarantined == figures(summary, parse_log(lines)).quarantined == 11
    assert figures({"outcome": "finished", "quarantined": 1}, None).quarantined == 1


def test_what_happened_is_known_where_the_log_is_gone() -> None:
    names = ("deaths", "stalls", "renewals", "leaks", "overloads")
    summary = {"outcome": "finished", **{name: number for number, name in enumerate(names)}}
    assert [getattr(figures(summary, None), name) for name in names] == [0, 1, 2, 3, 4]
    old = {"outcome": "finished"}
    assert [getattr(figures(old, None), name) for name in names] == [None] * 5
    log = parse_log([b'{"event": "child", "t": 1, "what": "died"}', b'{"event": "load", "t": 2, "busy": true}'])
    assert [getattr(figures(old, log), name) for name in names] == [1, 0, 0, 0, 1]


ITEM = '{"event": "item", "t": %d, "source": "a", "status": "%s"}'


@pytest.mark.parametrize(
    ("found", "lines", "left"),
    [
        (9, [], 9),
        (9, [ITEM % (1, "skipped"), ITEM % (1, "done"), '{"event": "plan", "t": 2, "items": 7}'], 7),
        (9, ['{"event": "plan", "t": 0, "items": 9}', ITEM % (1, "done"), ITEM % (2, "failed")], 7),
        (None, ['{"event": "plan", "t": 0, "items": 9}', ITEM % (1, "done"), ITEM % (2, "failed")], 7),
        (None, [ITEM % (1, "failed"), '{"event": "plan", "t": 2, "items": 7}', ITEM % (3, "done")], 6),
        (None, [ITEM % (1, "skipped")], None),
    ],
    ids=["before the plan", "rendered first", "in the middle", "no number", "no number, some before", "nothing said"],
)
def test_what_a_killed_run_left(found: int | None, lines: list[str], left: int | None) -> None:
    made = figures({}, parse_log(line.encode() for line in lines), found)
    assert made.left == left
    assert made.worked == (None if left is None else made.done + made.failed + left)
    assert made.items == (None if made.worked is None else made.worked + made.skipped)


def test_a_run_that_the_smaller_model_took_over_has_two_plans() -> None:
    lines = [
        '{"event": "plan", "t": 0, "items": 3, "padding_ratio": 0.25}',
        ITEM % (1, "done"),
        '{"event": "plan", "t": 2, "items": 2, "padding_ratio": 0.5}',
        ITEM % (3, "done"),
    ]
    log = parse_log(line.encode() for line in lines)
    assert (figures({}, log).left, figures({}, log, 3).left, figures({}, log).padding_ratio) == (1, 1, 0.25)


def test_a_cache_that_was_given_back_is_counted_as_such() -> None:
    lines = [
        b'{"event": "governor", "t": 1, "step": "open", "was": "open", "why": "cache"}',
        b'{"event": "governor", "t": 2, "step": "hold", "was": "open", "why": "memory"}',
        b'{"event": "governor", "t": 3, "step": "load", "was": "open", "why": "load average 9 is over 8"}',
    ]
    assert figures({}, parse_log(lines)).governor == {"cache": 1, "hold": 1, "load": 1}


def test_the_governors_steps_where_the_log_is_gone() -> None:
    assert figures({"outcome": "finished", "governor": {"open": 2, "hold": 3}}, None).governor == {"hold": 3}


@pytest.mark.parametrize("summary", [{"done": "many"}, {"stage_seconds": 3}, {"window_latency_seconds": [1]}])
def test_a_summary_of_another_shape_is_not_known(summary: dict[str, Any]) -> None:
    found = figures(summary, None)
    assert (found.done, found.p50, found.stage_seconds) == (0, None, {})
