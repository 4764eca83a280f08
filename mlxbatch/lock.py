"""One run at a time on an output root.

Two things guard it. An operating system lock on `OUT/.mlxbatch/lock` ends with its process, however that ends. The
holder file beside it, `lock.json`, says who has it, and it alone speaks for other hosts: OS locks do not cross every
network mount, so a holder of another host is believed until the user says `--break-lock`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from mlxbatch import holder
from mlxbatch.disk import cause
from mlxbatch.errors import LockedError, SetupError, show
from mlxbatch.holder import Holder, State
from mlxbatch.state import FOLDER, on_network, state_folder

# Seconds between two tries to get a lock that is waited for.
POLL = 0.5


class _Held(LockedError):
    """`who` has the lock, and may let go of it."""

    who = "another run"

    @classmethod
    def by(cls, who: str, message: str) -> _Held:
        held = cls(message)
        held.who = who
        return held


@contextmanager
def output_lock(
    output_root: Path, break_lock: bool = False, wait: float = 0.0, say: Callable[[str], None] = lambda text: None
) -> Iterator[None]:
    """Hold the lock on an output root, making the root where it is not there.

    A dead process's lock is taken over if it was of this host; one of another host only with `break_lock`. A process
    that lives on this host keeps its lock whatever is asked. A lock that is held is waited for up to `wait` seconds,
    and `say` is told once for whom. LockedError says who holds it and what to do; SetupError that the root cannot be
    made or written to.
    """
    folder = state_folder(output_root)
    holder_file = folder / "lock.json"
    with _acquired(output_root, folder, break_lock, wait, say):
        _write(holder_file, holder.this_process())
        try:
            yield
        finally:
            with suppress(OSError):  # what is left speaks for a process that is dead by then
                holder_file.unlink()


def _acquired(output_root: Path, folder: Path, break_lock: bool, wait: float, say: Callable[[str], None]) -> ExitStack:
    """The lock, as soon as it is there; raises what the last try raised."""
    end, told = time.monotonic() + wait, False
    while True:
        try:
            with ExitStack() as stack:
                stack.enter_context(_system_lock(folder / "lock", output_root, folder / "lock.json"))
                _refuse_others(output_root, folder / "lock.json", break_lock)
                return stack.pop_all()
        except _Held as held:
            left = end - time.monotonic()
            if left <= 0:
                raise
            if not told:
                say(held.who)
                told = True
            time.sleep(min(POLL, left))


@dataclass(frozen=True, slots=True)
class Standing:
    """What a holder file says of who has the lock: nobody ("free"), or one whose process is "alive" or "dead" here.

    One "elsewhere" is of another host; of one "unreadable" nothing can be told. A run is refused for both.
    """

    state: Literal["free", "alive", "dead", "elsewhere", "unreadable"]
    holder: Holder | None = None


def standing(output_root: Path) -> Standing:
    """How it stands with an output root's lock. Only looks: to try the lock would refuse a run that begins just then.

    SetupError where the holder file cannot be read.
    """
    path = output_root / FOLDER / "lock.json"
    found = _read(path)
    if found is None:
        return Standing("free")
    if not isinstance(found, Holder):
        return Standing("unreadable")
    return Standing(holder.state(found, holder.this_system(), shared=on_network(path.parent)).value, found)


@contextmanager
def _system_lock(path: Path, output_root: Path, holder_file: Path) -> Iterator[None]:
    # thread_local=False: the lock is let go by whichever thread closes the run.
    lock = FileLock(path, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout as error:
        found = _read(holder_file)
        who = str(found) if isinstance(found, Holder) else "another process"
        raise _Held.by(who, f"{show(output_root)} is in use by {who}: wait for it to end, or stop it") from error
    except OSError as error:
        raise SetupError(f"cannot lock {show(path)}: {cause(error)}") from error
    try:
        yield
    finally:
        lock.release()


def _refuse_others(output_root: Path, holder_file: Path, break_lock: bool) -> None:
    """The OS lock is ours; see whether the holder file still speaks for someone else."""
    found = _read(holder_file)
    if found is None:
        return
    if not isinstance(found, Holder):
        if not break_lock:
            raise LockedError(f"cannot tell who holds {show(holder_file)}: if nobody does, use --break-lock")
        return
    match holder.state(found, holder.this_system(), shared=on_network(holder_file.parent)):
        case State.ELSEWHERE if not break_lock:
            held = f"{show(output_root)} is held by {found}, another host"
            raise _Held.by(str(found), f"{held}: if that run has ended, use --break-lock")
        case State.ALIVE:
            # Only where the lock file was removed, or the mount has no locks, can it live and its lock be free.
            raise _Held.by(str(found), f"{show(output_root)} is in use by {found}: wait for it to end, or stop it")


def _read(path: Path) -> Holder | str | None:
    """The holder; None where there is no file; the text itself where it says nothing that can be understood."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SetupError(f"cannot read {show(path)}: {error.strerror or error}") from error
    try:
        return holder.from_json(json.loads(text))
    except (ValueError, KeyError, TypeError):
        return text


def _write(path: Path, me: Holder) -> None:
    """Whole or not at all, power failures included: a half-written holder could not be told from another host's."""
    draft = path.with_name(f"{path.name}.tmp")
    try:
        with draft.open("w", encoding="utf-8") as file:
            json.dump(holder.to_json(me), file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise SetupError(f"cannot write {show(path)}: {cause(error)}") from error
