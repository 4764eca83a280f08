"""Every error the toolkit raises on purpose. The exit code lives on the class; the docs table is made from it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar


class MlxBatchError(Exception):
    """Base of all; shown to the user as one line, without a traceback."""

    exit_code: ClassVar[int] = 70
    meaning: ClassVar[str] = "a bug of ours: run again with --debug and send the traceback"


class ItemError(MlxBatchError):
    """One input could not be done; the others go on. Becomes `Failed` in the runner only."""

    exit_code = 1
    meaning = "some items failed in this run, the rest are done; they are tried again next run"

    def __init__(self, path: Path, stage: str, cause: str) -> None:
        super().__init__(f"{show(path)}: {stage}: {cause}")
        self.path, self.stage, self.cause = path, stage, cause

    def __reduce__(self) -> tuple[type[ItemError], tuple[Path, str, str]]:
        # By default an exception is unpickled from its message alone; this one may come from a child.
        return type(self), (self.path, self.stage, self.cause)


class QualityLost(MlxBatchError):
    """A converted model lost more than a gate allows; it was not put in place."""

    exit_code = 1
    meaning = "a converted model lost more than --max-wer-loss or --max-kl allow: nothing was put in place"


class UsageError(MlxBatchError):
    exit_code = 2
    meaning = "usage: bad option, bad profile, no such input, outputs that would collide"


class SetupError(MlxBatchError):
    exit_code = 3
    meaning = (
        "environment: model not found or incomplete, no device, missing dependency, output not writable, disk full"
    )


class NotHere(SetupError):
    """A model, or a part of one, that is not on this machine, or damaged: a run that may fetch would fetch it.

    `what` leaves out the run that is offline and the remedy, where the message has them.
    """

    def __init__(self, message: str, what: str = "") -> None:
        super().__init__(message)
        self.what = what


class OutOfMemory(SetupError):
    """The device could not give the memory that was asked for."""


class DeviceLost(SetupError):
    """The device, or the process that owned it, is gone."""


class LockedError(MlxBatchError):
    exit_code = 4
    meaning = "another run holds the lock on this output root"


class LedgerError(MlxBatchError):
    exit_code = 5
    meaning = "the ledger is damaged (the path and the way out are printed)"


class ConditionMet(MlxBatchError):
    exit_code = 6
    meaning = "a --fail-if condition is met"


class Interrupted(MlxBatchError):
    exit_code = 130
    meaning = "interrupted (Ctrl-C): finished items are kept, nothing half-written"
    word: ClassVar[str] = "interrupted"


class HungUp(Interrupted):
    exit_code = 129
    meaning = "the terminal was closed (SIGHUP): finished items are kept, nothing half-written"
    word = "hung up"


class Terminated(Interrupted):
    exit_code = 143
    meaning = "terminated (SIGTERM): finished items are kept, nothing half-written"
    word = "terminated"


def show(path: Path | str) -> str:
    """A path as it can be printed anywhere: bytes that are no UTF-8, and control characters, as escapes."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


@contextmanager
def item_stage(path: Path, stage: str) -> Iterator[None]:
    """Reading the user's files: turn an OSError, ValueError or MemoryError into that item's failure.

    Never wraps the ledger or the outputs, where the same error is fatal.
    """
    try:
        yield
    except ItemError:
        raise
    except OSError as error:
        raise ItemError(path, stage, error.strerror or str(error)) from error
    except ValueError as error:
        raise ItemError(path, stage, str(error)) from error
    except MemoryError as error:
        raise ItemError(path, stage, f"too long for this machine's memory: {error}") from error
