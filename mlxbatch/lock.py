"""One run at a time on an output root.

Two things guard it. An operating system lock on `OUT/.mlxbatch/lock` ends with its process, however that ends. The
holder file beside it, `lock.json`, says who has it, and it alone speaks for other hosts: OS locks do not cross every
network mount, so a holder of another host is believed until the user says `--break-lock`.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from mlxbatch.errors import LockedError, SetupError, show
from mlxbatch.state import FOLDER, state_folder


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock. `born` is the process's start in seconds since 1970: a process id alone is used again."""

    pid: int
    host: str
    started: str
    command: str
    born: float

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.started} ({self.command})"


@contextmanager
def output_lock(output_root: Path, break_lock: bool = False) -> Iterator[None]:
    """Hold the lock on an output root, making the root where it is not there.

    A dead process's lock is taken over if it was of this host; one of another host only with `break_lock`. A process
    that lives on this host keeps its lock whatever is asked. LockedError says who holds it and what to do; SetupError
    that the root cannot be made or written to.
    """
    folder = state_folder(output_root)
    holder_file = folder / "lock.json"
    with _system_lock(folder / "lock", output_root, holder_file):
        _refuse_others(output_root, holder_file, break_lock)
        _write(holder_file, _me())
        try:
            yield
        finally:
            holder_file.unlink(missing_ok=True)


def holder_of(output_root: Path) -> Holder | None:
    """Who holds the lock, going by the holder file alone; None where nobody does. Touches nothing.

    A process that has died on this host holds nothing; whether one of another host lives cannot be told from here.
    """
    holder = _read(output_root / FOLDER / "lock.json")
    if not isinstance(holder, Holder):
        return None
    return holder if holder.host != socket.gethostname() or _alive(holder) else None


@contextmanager
def _system_lock(path: Path, output_root: Path, holder_file: Path) -> Iterator[None]:
    # thread_local=False: the lock is let go by whichever thread closes the run.
    lock = FileLock(path, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout as error:
        holder = _read(holder_file)
        who = str(holder) if isinstance(holder, Holder) else "another process"
        raise LockedError(f"{show(output_root)} is in use by {who}: wait for it to end, or stop it") from error
    except OSError as error:
        raise SetupError(f"cannot lock {show(path)}: {error.strerror or error}") from error
    try:
        yield
    finally:
        lock.release()


def _refuse_others(output_root: Path, holder_file: Path, break_lock: bool) -> None:
    """The OS lock is ours; see whether the holder file still speaks for someone else."""
    holder = _read(holder_file)
    if holder is None:
        return
    if not isinstance(holder, Holder):
        if not break_lock:
            raise LockedError(f"cannot tell who holds {show(holder_file)}: if nobody does, use --break-lock")
    elif holder.host != socket.gethostname():
        if not break_lock:
            raise LockedError(
                f"{show(output_root)} is held by {holder}, another host: if that run has ended, use --break-lock"
            )
    elif _alive(holder):
        # Only where the lock file was removed, or the mount has no locks, can its process live and the lock be free.
        raise LockedError(f"{show(output_root)} is in use by {holder}: wait for it to end, or stop it")


def _alive(holder: Holder) -> bool:
    """Whether the very process lives, not a later one with its number; this process's own leavings are dead."""
    import psutil  # type: ignore[import-untyped,unused-ignore]

    if holder.pid == os.getpid():
        return False
    try:
        process = psutil.Process(holder.pid)
        # A zombie has ended; in a container without an init nobody may ever collect it.
        return bool(process.status() != psutil.STATUS_ZOMBIE and abs(process.create_time() - holder.born) < 2.0)
    except psutil.Error:
        return False


def _me() -> Holder:
    import psutil

    now = datetime.now(UTC).astimezone().isoformat(timespec="seconds")
    command = show(shlex.join(sys.argv))
    return Holder(os.getpid(), socket.gethostname(), now, command[:200], psutil.Process().create_time())


def _read(path: Path) -> Holder | str | None:
    """The holder; None where there is no file; the text itself where it says nothing that can be understood."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SetupError(f"cannot read {show(path)}: {error.strerror or error}") from error
    try:
        found = json.loads(text)
        return Holder(
            int(found["pid"]),
            str(found["host"]),
            str(found["started"]),
            show(str(found["command"])),
            float(found["born"]),
        )
    except (ValueError, KeyError, TypeError):
        return text


def _write(path: Path, holder: Holder) -> None:
    """Whole or not at all, power failures included: a half-written holder could not be told from another host's."""
    draft = path.with_name(f"{path.name}.tmp")
    try:
        with draft.open("w", encoding="utf-8") as file:
            json.dump(asdict(holder), file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise SetupError(f"cannot write {show(path)}: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True)
class Standing:
    """What a holder file says of `who` has the lock: nobody ("free"), or one whose process is "alive" or "dead" here.

    One "elsewhere" is of another host; of one "unreadable" nothing can be told. A run is refused for both.
    """

    state: Literal["free", "alive", "dead", "elsewhere", "unreadable"]
    who: str = ""


def standing(output_root: Path) -> Standing:
    """How it stands with an output root's lock. Only looks: to try the lock would refuse a run that begins just then.

    SetupError where the holder file cannot be read.
    """
    found = _read(output_root / FOLDER / "lock.json")
    if found is None:
        return Standing("free")
    if not isinstance(found, Holder):
        return Standing("unreadable")
    if found.host != socket.gethostname():
        return Standing("elsewhere", str(found))
    return Standing("alive" if _alive(found) else "dead", str(found))
