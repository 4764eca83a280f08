"""The language of --fail-if: what it says, what it makes of figures that are not known, what it says of mistakes."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxbatch.errors import UsageError
from mlxbatch.report.compare import against
from mlxbatch.report.conditions import parse, unknown
from mlxbatch.report.names import NAMES, told, values
from mlxbatch.report.run import read_history

DOC = Path(__file__).resolve().parents[2] / "docs" / "report.md"
# 1,000 files in all, 400 of them worked on.
VALUES: dict[str, float | None] = {
    **dict.fromkeys(NAMES),
    "items": 1000.0,
    "worked": 400.0,
    "done": 390.0,
    "failed": 8.0,
    "skipped": 600.0,
    "quarantined": 4.0,
    "left": 2.0,
    "warnings": 0.0,
    "killed": 0.0,
    "stopped": 1.0,
    "rtfx": 6.0,
    "p95": 45.0,
    "wall": 7200.0,
    "age": 90_000.0,
    "peak": 4.2e9,
    "cpu": 0.8,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("failed>1% or rtfx<5", True),
        ("failed > 2 %", False),
        ("failed>=2%", True),
        ("failed=8 and failed==8 and failed!=9", True),
        ("quarantined>0.3%", True),
        ("quarantined>0.4%", False),
        ("skipped<=60%", True),
        ("rtfx<5", False),
        ("rtfx<6.5", True),
        ("p95>30", True),
        ("p95>0.5min", True),
        ("p95 > 1 min", False),
        ("p95<45001ms", True),
        ("wall>2h", False),
        ("wall>=2H", True),
        ("age>20h", True),
        ("age>26h", False),
        ("peak>4GB", True),
        ("peak > 4 GiB", False),
        ("peak>0", True),
        ("cpu<80%", False),
        ("cpu<=80%", True),
        ("cpu<0.9", True),
        ("killed", False),
        ("stopped", True),
        ("not stopped", False),
        ("NOT killed AND (Failed OR left)", True),
        ("not (killed or stopped)", False),
        ("not not stopped", True),
        ("warnings or killed and stopped or failed>9", False),
        ("stopped or failed and killed", True),
        ("(stopped or failed) and killed", False),
    ],
)
def test_what_conditions_say(text: str, expected: bool) -> None:
    assert parse(text).holds(VALUES) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu<20%", None),
        ("gpu", None),
        ("not gpu<20%", None),
        ("gpu<20% or stopped", True),
        ("gpu<20% or killed", None),
        ("gpu<20% and killed", False),
        ("gpu<20% and stopped", None),
    ],
)
def test_a_figure_that_is_not_known_decides_nothing(text: str, expected: bool | None) -> None:
    condition = parse(text)
    assert condition.holds(VALUES) is expected
    assert unknown(condition, VALUES) == ["gpu"]


@pytest.mark.parametrize(
    ("text", "at", "words"),
    [
        ("faild>1%", 1, "did you mean 'failed'?"),
        ("failed>1% or rtf<5", 14, "did you mean 'rtfx'?"),
        ("failed>1% rtfx<5", 11, "'and', 'or' or the end was expected"),
        ("failed>", None, "a value was expected, such as 10 or 1%"),
        ("rtfx<fast", 6, "a value was expected, such as 5"),
        ("failed >> 3", 9, "a value was expected"),
        ("failed>-1", 8, "it has no meaning here"),
        ("failed>1 & left", 10, "it has no meaning here"),
        ("killed>1%", 8, "write it as 10"),
        ("failed>1s", 8, "write it as 10 or 1%"),
        ("rtfx<5%", 6, "write it as 5"),
        ("peak>4", 6, "write it as 4GB"),
        ("peak>4%", 6, "not a size"),
        ("peak>4XB", 6, "not a size"),
        ("p95>3GB", 5, "write it as 30s"),
        ("cpu<20s", 5, "write it as 20%"),
        ("1<failed", 1, "a name was expected"),
        ("(failed", None, "')' was expected"),
        ("failed)", 7, "the end was expected"),
        ("", None, "a name was expected"),
        ("not", None, "a name was expected"),
        ("or failed", 1, "a name was expected"),
        ("failed>1 or", None, "a name was expected"),
        ("__import__(os)", 1, "no such name"),
        ("failed > 1 or \x1b[31m", 15, "\\x1b"),
        ("(" * 200 + "failed" + ")" * 200, 51, "within each other"),
        ("not " * 200 + "failed", 201, "within each other"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, at: int | None, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse(text)
    where = "at its end" if at is None else f"at character {at},"
    assert where in str(raised.value), raised.value
    assert words in str(raised.value), raised.value


@given(st.text(alphabet="failed rtfx()<>=!%.0123456789andornotGBs", max_size=40))
def test_no_text_is_more_than_a_condition_or_a_mistake(text: str) -> None:
    try:
        condition = parse(text)
    except UsageError:
        return
    assert condition.holds(VALUES) in (True, False, None)


@pytest.mark.parametrize(
    ("text", "deciding"),
    [
        ("failed>1% or rtfx<5", ["failed>1%"]),
        ("failed > 1 %  or rtfx<9", ["failed > 1 %", "rtfx<9"]),
        ("failed and (killed or stopped)", ["failed", "stopped"]),
        ("not (killed or rtfx<5)", ["killed", "rtfx<5"]),
        ("not (killed and stopped)", ["killed"]),
    ],
)
def test_the_comparisons_that_made_it_true(text: str, deciding: list[str]) -> None:
    assert [part.source for part in parse(text).deciding(VALUES)] == deciding


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("failed", "failed is 8 of 400, 2 %"),
        ("quarantined", "quarantined is 4 of 1,000, 0.4 %"),
        ("killed", "killed is 0"),
        ("peak", "peak is 4.2 GB"),
        ("cpu", "cpu is 80 %"),
        ("p95", "p95 is 45.00 s"),
        ("age", "age is 25:00:00"),
        ("rtfx", "rtfx is 6.00"),
        ("gpu", "gpu is not known"),
    ],
)
def test_figures_as_they_are_told(name: str, words: str) -> None:
    assert told(name, VALUES) == words.replace("2 %", "2.0 %")


MORNING = datetime(2026, 11, 9, 8, tzinfo=UTC)


def test_the_figures_of_real_nights(nights: Path) -> None:
    history = read_history(nights, "20261108")
    found = values(history.run, against(history.run, history.earlier), MORNING)
    assert list(found) == list(NAMES)
    assert (found["items"], found["done"], found["failed"], found["killed"]) == (10.0, 8.0, 2.0, 0.0)
    assert found["rtfx_ratio"] is not None
    assert 0.5 < found["rtfx_ratio"] < 1
    assert found["gpu"] is None
    killed = read_history(nights, "20261104").run
    found = values(killed, {}, MORNING)
    assert (found["killed"], found["stopped"], found["rtfx_ratio"], found["p95"]) == (1.0, 0.0, None, None)


def test_a_night_that_never_began_is_told_by_the_age_of_the_one_before(nights: Path) -> None:
    run, condition = read_history(nights, "20261108").run, parse("failed>50% or age>20h")
    east = timezone(timedelta(hours=9))
    ages = [values(run, {}, now)["age"] for now in (MORNING, MORNING.astimezone(east), MORNING + timedelta(days=1))]
    assert ages == [10 * 3600.0, 10 * 3600.0, 34 * 3600.0]
    assert condition.holds(values(run, {}, MORNING)) is False
    assert condition.holds(values(run, {}, MORNING + timedelta(days=1))) is True
    for began in ("", "yesterday", "2026-11-08T22:00:00"):
        assert values(replace(run, began=began), {}, MORNING)["age"] is None
    gone = replace(run, figures=replace(run.figures, known=False))
    assert (values(gone, {}, MORNING)["age"], values(gone, {}, MORNING)["done"]) == (10 * 3600.0, None)


def test_every_name_is_documented() -> None:
    section = DOC.read_text("utf-8").split("## --fail-if")[1].split("## JSON")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.MULTILINE))
    assert {name: rows.get(name) for name in NAMES} == {name: what.meaning for name, what in NAMES.items()}
