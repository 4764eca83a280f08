"""One run at a time: live holders, killed ones, those of another host."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from mlxbatch import holder
from mlxbatch.errors import LockedError, SetupError
from mlxbatch.holder import System
from mlxbatch.lock import output_lock

HOLD = """
import sys
from pathlib import Path
from mlxbatch.lock import output_lock
with output_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_elsewhere(root: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock until the block ends."""
    command = [sys.executable, "-c", HOLD, str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def holder_file(root: Path) -> Path:
    return root / ".mlxbatch" / "lock.json"


def leave_holder(root: Path, **changes: object) -> None:
    """What a run leaves that did not get to clean up."""
    holder = {"pid": 4_000_000, "host": socket.gethostname(), "started": "2026-11-30T01:00:00+00:00"}
    holder_file(root).parent.mkdir(parents=True, exist_ok=True)
    holder_file(root).write_text(json.dumps(holder | {"command": "mlxbatch transcribe in", "born": 1.0} | changes))


def refused(root: Path, break_lock: bool = False) -> str:
    with pytest.raises(LockedError) as caught, output_lock(root, break_lock):
        pass
    return str(caught.value)


def test_the_root_is_made_and_the_holder_is_there_only_while_it_is_held(tmp_path: Path) -> None:
    root = tmp_path / "new" / "out"
    with output_lock(root):
        holder = json.loads(holder_file(root).read_text())
        assert (holder["pid"], holder["host"]) == (os.getpid(), socket.gethostname())
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", holder["started"])
        assert holder["command"]
    assert not holder_file(root).exists()
    with output_lock(root):
        pass


def test_an_exception_lets_go(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), output_lock(tmp_path):
        raise KeyboardInterrupt
    assert not holder_file(tmp_path).exists()
    with output_lock(tmp_path):
        pass


def test_a_live_process_keeps_its_lock_and_is_named(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as process:
        for break_lock in (False, True):
            message = refused(tmp_path, break_lock)
            assert message.startswith(f"{tmp_path} is in use by process {process.pid} on {socket.gethostname()} since ")
            assert message.endswith("wait for it to end, or stop it")
        assert holder_file(tmp_path).exists()
        process.communicate("")
    with output_lock(tmp_path):
        pass


def test_two_runs_in_one_process_do_not_share_the_lock(tmp_path: Path) -> None:
    with output_lock(tmp_path):
        assert f"process {os.getpid()}" in refused(tmp_path)
        assert holder_file(tmp_path).exists()


def test_a_process_killed_with_kill_9_loses_its_lock(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert json.loads(holder_file(tmp_path).read_text())["pid"] == process.pid
    with output_lock(tmp_path):
        assert json.loads(holder_file(tmp_path).read_text())["pid"] == os.getpid()
    assert not holder_file(tmp_path).exists()


def test_a_process_id_that_is_used_again_does_not_hold(tmp_path: Path) -> None:
    leave_holder(tmp_path, pid=os.getppid(), born=1.0)
    with output_lock(tmp_path):
        pass


def test_a_live_process_holds_even_where_its_lock_file_was_removed(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as process:
        (tmp_path / ".mlxbatch" / "lock").unlink()
        assert f"in use by process {process.pid}" in refused(tmp_path)
        process.communicate("")
    with output_lock(tmp_path):
        pass


def test_another_host_s_lock_is_taken_over_only_when_asked(tmp_path: Path) -> None:
    leave_holder(tmp_path, host="studio-2", pid=os.getpid())
    message = refused(tmp_path)
    assert f"process {os.getpid()} on studio-2 since 2026-11-30T01:00:00+00:00" in message
    assert message.endswith("another host: if that run has ended, use --break-lock")
    assert json.loads(holder_file(tmp_path).read_text())["host"] == "studio-2"
    with output_lock(tmp_path, break_lock=True):
        assert json.loads(holder_file(tmp_path).read_text())["host"] == socket.gethostname()
    with output_lock(tmp_path):
        pass


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 3}', '{"pid": "x", "host": 1}'])
def test_a_holder_that_cannot_be_understood_is_not_taken_over_unasked(tmp_path: Path, text: str) -> None:
    leave_holder(tmp_path)
    holder_file(tmp_path).write_text(text)
    assert refused(tmp_path) == (f"cannot tell who holds {holder_file(tmp_path)}: if nobody does, use --break-lock")
    with output_lock(tmp_path, break_lock=True):
        pass


def test_control_characters_of_a_foreign_holder_are_not_printed(tmp_path: Path) -> None:
    leave_holder(tmp_path, host="studio-2", command="\x1b[31mred\n")
    assert "(\\x1b[31mred\\n)" in refused(tmp_path)


def test_a_root_that_cannot_be_made_or_locked_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match=r"cannot write to .*/file: Not a directory"), output_lock(tmp_path / "file"):
        pass
    (tmp_path / "out" / ".mlxbatch" / "lock").mkdir(parents=True)
    with pytest.raises(SetupError, match=r"cannot lock .*/out/\.mlxbatch/lock"), output_lock(tmp_path / "out"):
        pass


def test_a_holder_file_that_cannot_be_written_is_named_and_the_lock_let_go(tmp_path: Path) -> None:
    (tmp_path / ".mlxbatch" / "lock.json.tmp").mkdir(parents=True)
    with pytest.raises(SetupError, match=r"cannot write .*lock\.json"), output_lock(tmp_path):
        pass
    (tmp_path / ".mlxbatch" / "lock.json.tmp").rmdir()
    with output_lock(tmp_path):
        pass


def test_a_holder_is_told_by_its_process_id_and_start(tmp_path: Path) -> None:
    leave_holder(tmp_path, pid=os.getppid(), born=psutil.Process(os.getppid()).create_time())
    assert "in use by process" in refused(tmp_path)


def test_a_killed_process_that_nobody_collected_is_dead(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE
        with output_lock(tmp_path):
            pass


# ---- which host is this one


def test_a_holder_tells_its_system(tmp_path: Path) -> None:
    here = holder.this_system()
    with output_lock(tmp_path):
        found = json.loads(holder_file(tmp_path).read_text())
        assert (found["machine"], found["boot"], found["space"]) == (here.machine, here.boot, here.space)


def test_a_lock_from_before_a_restart_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process's number may be another's by now."""
    monkeypatch.setattr(holder, "this_system", lambda: System("box", "m1", "b2"))
    parent = psutil.Process(os.getppid())
    leave_holder(tmp_path, pid=parent.pid, born=parent.create_time(), host="box", machine="m1", boot="b1")
    with output_lock(tmp_path):
        pass


def test_another_machine_of_this_name_keeps_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder, "this_system", lambda: System("box", "m1", "b1"))
    leave_holder(tmp_path, host="box", machine="m2", boot="b2")
    assert refused(tmp_path).endswith("another host: if that run has ended, use --break-lock")
    with output_lock(tmp_path, break_lock=True):
        pass


# ---- waiting


def test_a_lock_that_is_let_go_is_taken(tmp_path: Path) -> None:
    told: list[str] = []
    with held_elsewhere(tmp_path) as process:
        assert process.stdin is not None
        timer = threading.Timer(0.7, process.stdin.close)
        timer.start()
        with output_lock(tmp_path, wait=30, say=told.append):
            assert json.loads(holder_file(tmp_path).read_text())["pid"] == os.getpid()
        timer.join()
    assert len(told) == 1
    assert told[0].startswith(f"process {process.pid} on {socket.gethostname()} since ")


def test_waiting_ends_when_its_time_is_over(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as process:
        began, worked = time.monotonic(), time.process_time()
        with pytest.raises(LockedError, match=f"in use by process {process.pid}"), output_lock(tmp_path, wait=1.2):
            pass
        assert 1.2 <= time.monotonic() - began < 5
        assert time.process_time() - worked < 0.4, "it does not wait, it works"
        process.communicate("")


def test_another_host_s_lock_is_waited_for(tmp_path: Path) -> None:
    leave_holder(tmp_path, host="studio-2")
    told: list[str] = []
    timer = threading.Timer(0.3, holder_file(tmp_path).unlink)
    timer.start()
    with output_lock(tmp_path, wait=30, say=told.append):
        pass
    timer.join()
    assert [line.split(" since ")[0] for line in told] == ["process 4000000 on studio-2"]


def test_a_holder_that_cannot_be_understood_is_not_waited_for(tmp_path: Path) -> None:
    leave_holder(tmp_path)
    holder_file(tmp_path).write_text("{")
    began = time.monotonic()
    with pytest.raises(LockedError, match="cannot tell who holds"), output_lock(tmp_path, wait=30):
        pass
    assert time.monotonic() - began < 5


def test_a_free_lock_is_not_waited_for(tmp_path: Path) -> None:
    told: list[str] = []
    with output_lock(tmp_path, wait=30, say=told.append):
        pass
    assert told == []
