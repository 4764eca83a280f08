"""The disk is full at every write of a run, one after the other: exit 3 with one line, a clean tree, and on it goes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.faults.full_disk import FullDisk, Mode, build
from tests.kills import outputs

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler"),
]


def prove_all(disk: FullDisk, mode: Mode) -> None:
    """Strike at each call once; what a run asks for varies a little, so it may end before the last number."""
    count = len(disk.measure())
    struck = [disk.prove(at, mode) for at in range(1, count + 1)]
    kinds = sorted({call.name for call in struck if call is not None})
    print(f"{mode}: {count} calls, {sum(call is not None for call in struck)} struck: {', '.join(kinds)}")
    assert sum(call is None for call in struck) <= 10


@pytest.mark.parametrize("mode", ["all", "once", "torn"])
def test_the_first_run(tmp_path: Path, mode: Mode) -> None:
    prove_all(FullDisk(tmp_path, build(tmp_path)), mode)


@pytest.mark.parametrize("mode", ["all", "once", "torn"])
def test_a_later_run(tmp_path: Path, mode: Mode) -> None:
    """With one new file, one that was touched, and a further format of all."""
    disk = FullDisk(tmp_path, build(tmp_path))
    disk.prepare_earlier_run()
    prove_all(disk, mode)


def test_with_the_engine_in_a_child(tmp_path: Path) -> None:
    prove_all(FullDisk(tmp_path, build(tmp_path), arguments=("--workers", "2")), "all")


def test_with_the_journal_of_a_network_mount(tmp_path: Path) -> None:
    prove_all(FullDisk(tmp_path, build(tmp_path), environment={"FAKE_NETWORK": "1"}), "all")


def test_with_the_metrics_and_the_log_file_on_it(tmp_path: Path) -> None:
    """The output lies elsewhere, and is done; what is lost is said, and no file is left beside them."""
    notes = tmp_path / "notes"
    arguments = ("--workers", "0", "--metrics-file", "notes/x.prom", "--log-file", "notes/run.log")
    disk = FullDisk(tmp_path, build(tmp_path), arguments=arguments, full="notes")
    notes.mkdir()
    count = len(disk.measure())
    assert count >= 5
    for at in range(1, count + 1):
        shutil.rmtree(notes)
        notes.mkdir()
        ran = disk.run(at)
        assert ran.code == 3, (at, ran)
        assert "Traceback" not in ran.err
        assert "cannot write the " in ran.err, (at, ran)
        assert {path.name for path in notes.iterdir()} <= {"run.log"}, at
        assert outputs(tmp_path / "out") in (disk.reference, {}), at
