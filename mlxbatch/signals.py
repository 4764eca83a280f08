"""Ctrl-C, SIGTERM and SIGHUP as errors of ours, raised in the main thread, and the moments in which they wait."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from mlxbatch.errors import HungUp, Interrupted, Terminated

_STOPS: dict[int, type[Interrupted]] = {
    signal.SIGINT: Interrupted,
    signal.SIGTERM: Terminated,
    signal.SIGHUP: HungUp,
}


@contextmanager
def stop_signals() -> Iterator[None]:
    """The first signal raises Interrupted or its kin, so that all is closed in order; a second ends at once.

    A signal that the caller of this process has it ignore (nohup, a shell's background job) stays ignored. Off the
    main thread, where Python cannot set handlers, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _STOPS}
    wanted = [number for number in _STOPS if before[number] is not signal.SIG_IGN]
    try:
        for number in wanted:
            signal.signal(number, _first)
        yield
    finally:
        for number in wanted:
            signal.signal(number, before[number])


@contextmanager
def held_signals() -> Iterator[None]:
    """Inside the block a signal waits, and comes at its end: for steps that must be taken whole or not at all.

    By handlers, not by the signal mask, which a process that is started inside the block would inherit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    before = {number: signal.getsignal(number) for number in _STOPS}
    held = [number for number in _STOPS if callable(before[number])]
    try:
        for number in held:
            signal.signal(number, lambda number, frame: arrived.append(number))
        yield
    finally:
        for number in held:
            signal.signal(number, before[number])
        for late in dict.fromkeys(arrived):
            signal.raise_signal(late)


def _first(number: int, frame: FrameType | None) -> None:
    for each in _STOPS:
        if signal.getsignal(each) is _first:
            signal.signal(each, _second)
    raise _STOPS[number](_STOPS[number].word)


def _second(number: int, frame: FrameType | None) -> None:
    # Nothing is lost: the system lets the lock go, the child sees its pipe end, the next run clears the scratch.
    os._exit(128 + number)
