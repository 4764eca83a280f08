"""Rules for lines: what is asked for, and what has to be known for it."""

from __future__ import annotations

from mlxbatch.line_rules import USUAL_WIDTH, LineRules


def test_nothing_is_asked_for() -> None:
    assert (LineRules().asked, LineRules().timed, LineRules().width) == ({}, (), None)


def test_a_width_alone_needs_no_times() -> None:
    assert LineRules(30).timed == ()
    assert LineRules(30).width == 30


def test_the_others_do() -> None:
    every = LineRules(30, 2, 0.5, True)
    assert every.timed == ("max_line_count", "max_gap", "highlight")
    assert every.asked == {"max_line_width": 30, "max_line_count": 2, "max_gap": 0.5, "highlight": True}


def test_a_number_of_lines_alone_has_lines_of_the_usual_width() -> None:
    assert LineRules(None, 2).width == USUAL_WIDTH
    assert LineRules(max_gap=1.0).width is None
