"""The disk is full at some writes of a run: the short version of tests/soak/test_disk.py."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.faults.full_disk import FullDisk, build

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler"
)


def test_at_some_writes_of_the_first_run(tmp_path: Path) -> None:
    """The ledger's tables, an output when another is in place, and what is written at the end."""
    disk = FullDisk(tmp_path, build(tmp_path))
    calls = disk.measure()
    paths = (".mlxbatch/ledger.sqlite3-wal", "sub/c.json")
    first = [next(call.number for call in calls if call.path.startswith(path)) for path in paths]
    last = max(call.number for call in calls if not call.optional)
    for at in (*first, last):
        assert disk.prove(at) is not None


def test_at_a_write_of_a_later_run_that_takes_half(tmp_path: Path) -> None:
    disk = FullDisk(tmp_path, build(tmp_path))
    disk.prepare_earlier_run()
    assert disk.prove(len(disk.measure()) // 2, "torn") is not None
