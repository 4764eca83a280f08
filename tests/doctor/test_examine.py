"""All checks together: none stops the others, whatever it raises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mlxbatch.doctor import Case, Finding, checks, examine
from mlxbatch.doctor.finding import Check
from mlxbatch.errors import Interrupted, SetupError

FINE = Finding("ok", "first", "fine")


def quick() -> dict[str, Check]:
    """All but the device, whose self-test takes a second and has tests of its own."""
    return {topic: check for topic, check in checks().items() if topic != "device"}


def fine(case: Case) -> Iterator[Finding]:
    yield FINE


@pytest.mark.parametrize(
    ("error", "what", "remedy"),
    [
        (SetupError("x: not writable"), "x: not writable", ""),
        (PermissionError(13, "Permission denied", "a\nb"), "a\\nb: Permission denied", "this user"),
        (OSError("odd"), "odd", "this user"),
        (ZeroDivisionError("by zero"), "this check itself failed: ZeroDivisionError: by zero", "bug of ours"),
    ],
    ids=["ours", "denied", "system", "bug"],
)
def test_a_check_that_fails_is_a_finding_and_the_others_go_on(error: Exception, what: str, remedy: str) -> None:
    def fails(case: Case) -> Iterator[Finding]:
        yield Finding("ok", "second", "so far")
        raise error

    found = list(examine(Case(), {"first": fine, "second": fails, "third": fine}))
    assert [one.what for one in found] == ["fine", "so far", what, "fine"]
    assert (found[2].level, found[2].topic) == ("problem", "second")
    assert remedy in found[2].remedy


def test_an_interruption_is_not_a_finding() -> None:
    def stopped(case: Case) -> Iterator[Finding]:
        raise Interrupted("interrupted")
        yield FINE

    with pytest.raises(Interrupted):
        list(examine(Case(), {"first": stopped}))


def test_each_check_speaks_of_its_own_topic_and_what_is_wrong_has_a_remedy(tmp_path: Path) -> None:
    case = Case(output=tmp_path / "out", inputs=(tmp_path,))
    for topic, check in quick().items():
        found = list(check(case))
        assert {one.topic for one in found} <= {topic}
        assert all(one.what and "\n" not in one.what for one in found)
        assert all(one.remedy for one in found if one.level in ("warning", "problem"))


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    list(examine(Case(output=tmp_path / "out", inputs=(tmp_path,)), quick()))
    list(examine(Case(output=tmp_path / "new" / "out"), quick()))
    assert list(tmp_path.rglob("*")) == [tmp_path / "out"]
