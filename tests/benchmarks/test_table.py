"""Medians, paired ratios, and Markdown."""

from __future__ import annotations

from benchmarks.table import Figure, Spread, figures_table, gigabytes, markdown, percent


def test_ratios_are_of_pairs_before_the_median_is_taken() -> None:
    """The second round met a machine ten times as slow: both sides did."""
    assert Spread.ratios([4.0, 60.0, 5.0], [2.0, 20.0, 2.0]) == Spread(2.5, 2.0, 3.0)
    assert Spread.of([3.0, 1.0]).text(1) == "2.0 (1.0 to 3.0)"


def test_a_table_is_aligned_markdown() -> None:
    assert markdown(["side", "s"], [["mlxbatch", "1.5"], ["b", "10"]]).splitlines() == [
        "| side     | s   |",
        "|----------|-----|",
        "| mlxbatch | 1.5 |",
        "| b        | 10  |",
    ]


def test_figures_stand_beside_their_goals() -> None:
    head, _, line = figures_table([Figure("speed", "5x", "4x", "6x", "WER 5 %")]).splitlines()
    assert [cell.strip() for cell in head.strip("|").split("|")] == ["what", "measured", "reach", "aim", "beside it"]
    assert [cell.strip() for cell in line.strip("|").split("|")] == ["speed", "5x", "4x", "6x", "WER 5 %"]


def test_units() -> None:
    assert percent(0.07412) == "7.41 %"
    assert gigabytes(1_580_000_000) == "1.58 GB"
