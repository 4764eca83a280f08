"""Failures by cause: alike are those that differ in names and numbers only."""

from __future__ import annotations

import pytest

from mlxbatch.report.causes import Failure, alike, causes, failures_of


@pytest.mark.parametrize(
    ("error", "shared"),
    [
        ("Format not recognised.", "Format not recognised."),
        ("101 of 2000 bytes", "N of N bytes"),
        ("no audio in in/a b.wav", "no audio in FILE"),
        ("no audio in 'a b.wav'", "no audio in 'FILE'"),
        ("cannot read /mnt/x/y.txt: denied", "cannot read PATH: denied"),
        ("cannot read '/mnt/x/y.txt'", "cannot read 'PATH'"),
        ("at 0x7ffe12 in block 3", "at N in block N"),
        ("digest 00ff12ab9c differs", "digest N differs"),
        ("took 1.5e-3 s, -4 dB, 12:30", "took N s, N dB, N"),
        ("mp3 and utf8 stay", "mp3 and utf8 stay"),
        ("either/or and a/b", "PATH and PATH"),
        ("two\n  lines", "two lines"),
    ],
)
def test_what_causes_share(error: str, shared: str) -> None:
    assert alike(Failure("in/a b.wav", "decode", error)) == shared


def test_causes_are_in_the_order_of_their_number() -> None:
    failures = [Failure(f"{n}.wav", "decode", f"{n} bytes") for n in range(3)]
    failures += [Failure("x.wav", "probe", "3 bytes"), Failure("y.wav", "decode", "no audio")]
    found = causes(failures)
    assert [(cause.stage, cause.text, len(cause.failures)) for cause in found] == [
        ("decode", "N bytes", 3),
        ("decode", "no audio", 1),
        ("probe", "3 bytes", 1),
    ]
    assert [failure.source for failure in found[0].failures] == ["0.wav", "1.wav", "2.wav"]


def test_the_log_is_asked_before_the_summary() -> None:
    items = [{"source": "a", "status": "failed", "stage": "decode", "error": "x", "quarantined": True}]
    summary = [{"path": "b", "stage": "decode", "error": "y"}]
    assert failures_of([*items, {"source": "c", "status": "done"}], summary) == (Failure("a", "decode", "x", True),)
    assert failures_of([], summary) == (Failure("b", "decode", "y"),)


def test_an_item_that_lacks_everything_is_a_failure_all_the_same() -> None:
    assert causes(failures_of([{"status": "failed"}], []))[0].failures == (Failure("", "", ""),)
