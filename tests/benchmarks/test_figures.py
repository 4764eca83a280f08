"""The figures of the table, out of what the sides gave."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from benchmarks import figures
from benchmarks.corpus import Clip, Corpus
from benchmarks.curve import curve_table, texts_changed, toml
from benchmarks.figures import Asked, Rival
from benchmarks.processes import RunFailed
from benchmarks.sides import Measured
from mlxbatch.report.log import Log
from mlxbatch.types import Span

CLIPS = [Clip(Path("a.wav"), 10.0, "the cat sat there"), Clip(Path("b.wav"), 10.0, "here")]
RIGHT = ("The cat sat there.", "Here")


def measured(wall: float, texts: tuple[str, ...] = RIGHT, log: Log | None = None) -> Measured:
    return Measured(wall, 2_000_000_000, texts, "about", log or Log())


def no_side(clips: list[Clip]) -> figures.Side:
    raise AssertionError("not to be run")


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_speed_is_the_median_of_the_pairs_with_both_error_rates() -> None:
    runs = {"mlx-audio": [measured(10.0), measured(90.0)], "mlxbatch": [measured(2.0), measured(30.0, ("the", "here"))]}
    found = figures.speed_figure("sentences", "mlx-audio", runs, {}, Rival(no_side, "4x", "6x"), CLIPS)
    assert (found.value, found.reach, found.aim) == ("4.00x", "4x", "6x")
    assert found.beside == "WER 60.00 % against 0.00 %"


def test_a_side_that_failed_has_no_value_but_a_cause() -> None:
    found = figures.speed_figure("sentences", "vayu", {}, {"vayu": "ended with 1"}, Rival(no_side), CLIPS)
    assert (found.value, found.beside) == ("not measured", "ended with 1")


def test_the_table_of_sides_compares_each_with_mlxbatch() -> None:
    runs = {"mlx-audio": [measured(10.0)], "mlxbatch": [measured(4.0)]}
    other, ours = map(cells, figures.sides_table(runs, CLIPS).splitlines()[2:])
    assert other == ["mlx-audio", "10.0", "2.00", "2.50 (2.50 to 2.50)", "0.00 %", "2.00 GB"]
    assert ours == ["mlxbatch", "4.0", "5.00", "", "0.00 %", "2.00 GB"]


def test_each_channel_has_an_error_rate_of_its_own() -> None:
    calls = [
        Clip(Path("call.wav"), 9.0, channels=("good day", "hello there")),
        Clip(Path("b.wav"), 9.0, channels=("yes", "no")),
    ]
    runs = {"mlxbatch": [measured(1.0, ("good day", "hello", "yes", "no"))]}
    (line,) = map(cells, figures.channels_table(runs, calls).splitlines()[2:])
    assert line == ["mlxbatch", "0.00 %", "33.33 %"]


def test_accuracy_is_in_points_and_needs_mlx_audio() -> None:
    runs = {"mlx-audio": [measured(1.0, ("the cat sat", "here"))], "mlxbatch": [measured(1.0)]}
    (found,) = figures.accuracy_figures(runs, CLIPS)
    assert found.value == "-20.00 points"
    assert figures.accuracy_figures({"mlxbatch": [measured(1.0)]}, CLIPS) == []


def test_slots_and_time_outside_the_network() -> None:
    log = Log(spans=[Span("encode", 0.0, 4.0, 1), Span("decode", 4.0, 8.0, 12)])
    alive, outside = figures.slots_figures([measured(10.0, log=log)], 720.0, "beside")
    assert alive.value == "0.750"
    assert outside.value == "10.0 (10.0 to 10.0)"  # 2 s of 12 minutes


def test_memory_is_the_devices_peak_against_the_plans() -> None:
    log = Log(once={"start": {}, "end": {"peak_bytes": 1_100_000_000}})
    found = figures.memory_figure([measured(1.0, log=log), measured(1.0)], 1_000_000_000)
    assert found.value == "+10.0 %"
    assert found.beside == "1.10 GB of 1.00 GB predicted"


def test_stages_are_shares_of_the_wall_time() -> None:
    log = Log(spans=[Span("encode", 1.0, 6.0, 1)], seconds=10.0)
    log.many["plan"].append({"t": 1.0})
    lines = [cells(line) for line in figures.stages_table([measured(10.0, log=log)]).splitlines()[2:]]
    assert lines == [
        ["start, load, end", "1.0", "10%"],
        ["encode", "5.0", "50%"],
        ["rest", "4.0", "40%"],
        ["wall time", "10.0", "100%"],
    ]


def test_a_row_that_cannot_be_measured_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(asked: Asked) -> list[figures.Figure]:
        raise RunFailed("mlxbatch ended with 2: No such option: --word-timestamps")

    monkeypatch.setattr(figures, "ROWS", {"words": fail})
    (found,) = figures.measured("words", Asked(Corpus(tmp_path), 1))
    assert (found.value, found.beside) == ("not measured", "mlxbatch ended with 2: No such option: --word-timestamps")


def test_rows_are_chosen_by_name() -> None:
    assert figures.chosen("calls,words") == ["calls", "words"]
    with pytest.raises(argparse.ArgumentTypeError, match="no speed; there are sentences, calls"):
        figures.chosen("calls,speed")


def test_a_setting_is_lines_of_toml() -> None:
    assert toml("transcribe.vad=false device.blas_threads=1") == "transcribe.vad=false\ndevice.blas_threads=1\n"


def test_a_curve_counts_texts_that_differ_from_the_first_rows() -> None:
    other = measured(5.0, ("the cat", "here!"), Log(spans=[Span("encode", 0.0, 1.5, 1), Span("decode", 1.0, 3.5, 4)]))
    assert texts_changed(measured(1.0), other) == 1
    first, second = map(cells, curve_table({"full": [measured(9.0)], "margin=2": [other]}, CLIPS).splitlines()[2:])
    assert first == ["full", "9.0", "0.0", "0.0", "0.00 %", "0"]
    assert second == ["margin=2", "5.0", "1.5", "2.5", "40.00 %", "1"]
