"""Where a run's time went, out of its log."""

from __future__ import annotations

import json

import pytest

from benchmarks.spans import by_stage, live_share, outside_seconds, stage_seconds
from mlxbatch.report.log import Log, parse_log
from mlxbatch.types import Span


def log(planned: float, ended: float, spans: list[Span]) -> Log:
    events = [{"event": "start", "t": 0.1}, {"event": "plan", "t": planned}]
    events += [
        {"event": "span", "t": one.end, "stage": one.stage, "begin": one.begin, "end": one.end, "rows": one.rows}
        for one in spans
    ]
    return parse_log(json.dumps(event).encode() for event in [*events, {"event": "end", "t": ended}])


def test_time_counts_once_where_stages_overlap() -> None:
    spans = [Span("decode", 4.0, 9.0, 1), Span("encode", 1.0, 5.0, 1), Span("vad", 0.0, 20.0, 1)]
    assert stage_seconds(spans, "encode", "decode") == 8.0
    assert stage_seconds(spans, "encode") == 4.0
    assert stage_seconds([], "encode") == 0.0


def test_slots_alive_are_weighted_by_time() -> None:
    spans = [Span("decode", 0.0, 3.0, 16), Span("decode", 3.0, 4.0, 8), Span("encode", 0.0, 9.0, 1)]
    assert live_share(spans, 16) == pytest.approx((3 * 16 + 8) / (4 * 16))
    assert live_share([Span("encode", 0.0, 9.0, 1)], 16) == 0.0


def test_what_is_outside_the_network_is_all_of_the_process_but_that() -> None:
    spans = [Span("vad", 0.0, 2.0, 1), Span("encode", 1.0, 4.0, 1), Span("decode", 3.0, 6.0, 1)]
    assert outside_seconds(10.0, spans) == 5.0


def test_each_stage_has_its_seconds_and_the_rest_is_left() -> None:
    """A process of 12 s: 1 before its log and after it, 2 until the plan; of the 9 that are left 1 is nobody's."""
    spans = [Span("encode", 2.0, 6.0, 1), Span("vad", 5.0, 7.0, 1), Span("decode", 7.0, 10.0, 1)]
    found = by_stage(12.0, log(2.0, 11.0, spans))
    assert found == {"start, load, end": 3.0, "encode": 4.0, "vad": 2.0, "decode": 3.0, "rest": 1.0}


def test_a_run_of_nothing_is_start_and_end_alone() -> None:
    assert by_stage(3.0, log(2.0, 2.0, [])) == {"start, load, end": 3.0, "rest": 0.0}
