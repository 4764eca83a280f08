"""How the night went, in one sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlxbatch.lock import Standing
from mlxbatch.report.compare import Against
from mlxbatch.report.content import Report, make_report
from mlxbatch.report.figures import Figures
from mlxbatch.report.run import History, Run, State, read_history
from mlxbatch.report.verdict import key_figures, verdict


def report(state: State = "finished", outcome: str = "finished", **figures: Any) -> Report:
    return make_report(History(Run("r", "", None, state, outcome, {}, Figures(**figures)), (), Standing("free")))


@pytest.mark.parametrize(
    ("made", "tone", "sentence"),
    [
        (report(), "good", "There was nothing to do: no files were found."),
        (report(skipped=3000), "good", "There was nothing to do: 3,000 files skipped."),
        (
            report(skipped=30, quarantined=1),
            "fair",
            "There was nothing to do: 30 files skipped, 1 quarantined.",
        ),
        (report(done=1), "good", "The one file is done."),
        (report(done=2959, skipped=41), "good", "All 2,959 files are done; 41 more skipped."),
        (
            report(done=2959, failed=41, quarantined=2),
            "fair",
            "2,959 of 3,000 files are done; 41 failed, 2 quarantined.",
        ),
        (report(done=1, left=9), "fair", "1 of 10 files is done; 9 are left."),
        (report(failed=1), "fair", "0 of 1 file are done; 1 failed."),
        (
            report("stopped", "SetupError: the disk is full", done=3, left=1, wall_seconds=61.0),
            "bad",
            "The run was stopped after 1:01 (the disk is full): 3 of 4 files are done; 1 is left.",
        ),
        (report("stopped", "", done=3), "bad", "The run was stopped (no reason given): all 3 files are done."),
        (
            report("killed", "", left=4, wall_seconds=7200.0),
            "bad",
            "The run was killed after 2:00:00: 0 of 4 files are done; 4 are left.",
        ),
        (
            report("killed", "", known=False),
            "bad",
            "The run was killed: its log has been removed, and how far it came is not known.",
        ),
        (report("killed", ""), "bad", "The run was killed: nothing done."),
        (
            report("killed", "", done=1, failed=2, left=None),
            "bad",
            "The run was killed: 1 file is done; 2 failed, how many are left is not known.",
        ),
        (
            report("going on", "", done=3, left=1, wall_seconds=5.0),
            "open",
            "The run is going on after 5.0 s: 3 of 4 files are done; 1 is left so far.",
        ),
    ],
)
def test_sentences(made: Report, tone: str, sentence: str) -> None:
    found = verdict(made)
    assert (found.sentence, found.tone) == (sentence, tone)


def test_a_run_that_may_be_going_on_elsewhere() -> None:
    made = replace(report("unknown", "", done=3), holder="process 3 on elsewhere")
    assert verdict(made).tone == "open"
    assert verdict(made).sentence == (
        "The run has no end: it was killed, or is going on in process 3 on elsewhere; all 3 files are done."
    )


SPEED: dict[str, Any] = {"done": 9, "audio_seconds": 7200.0, "wall_seconds": 600.0, "rtfx": 12.0}


@pytest.mark.parametrize(
    ("usual", "words"),
    [
        (Against(12.0, 16.0, 4), "25 % slower than the median of 4 earlier runs with the same model and profile."),
        (Against(12.0, 8.0, 1), "50 % faster than the one earlier run with the same model and profile."),
        (Against(12.0, 11.9, 3), "as fast as the median of 3 earlier runs with the same model and profile."),
        (None, "there is no earlier run with the same model and profile to compare it with."),
    ],
)
def test_the_pace_beside_what_is_usual(usual: Against | None, words: str) -> None:
    made = replace(report(**SPEED), against={"rtfx": usual} if usual else {})
    assert verdict(made).detail.startswith("2.0 h of audio in 10:00 is RTFx 12.0")
    assert verdict(made).detail.endswith(words)
    assert verdict(report(skipped=3)).detail == ""


def test_key_figures_are_those_that_are_known(nights: Path) -> None:
    assert key_figures(report("killed", known=False)) == []
    assert [key.label for key in key_figures(report(skipped=3))] == ["Files done"]
    busy = {key.label: (key.value, key.note) for key in key_figures(make_report(read_history(nights)))}
    assert busy["Files done"] == ("24", "6 failed of 32")
    assert key_figures(report("killed", failed=2, left=None))[0].note == "2 failed"
    assert busy["Peak memory"] == ("5.4 GB", "90 % of the limit")
    assert busy["CPU"][1] == "GPU 50 %"
    assert busy["Speed, RTFx"] == ("4.7", "nothing to compare with")
