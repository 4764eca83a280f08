"""Signals as errors, and steps in which they wait."""

from __future__ import annotations

import signal
import threading

import pytest

from mlxbatch.errors import HungUp, Interrupted, Terminated
from mlxbatch.signals import held_signals, stop_signals


@pytest.mark.parametrize(
    ("number", "kind"), [(signal.SIGINT, Interrupted), (signal.SIGTERM, Terminated), (signal.SIGHUP, HungUp)]
)
def test_a_signal_is_an_error_and_the_handlers_come_back(number: signal.Signals, kind: type[Interrupted]) -> None:
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with pytest.raises(kind) as caught, stop_signals():
        signal.raise_signal(number)
    assert type(caught.value) is kind
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=["background", "nohup"])
def test_one_that_is_ignored_stays_so(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with stop_signals():
            signal.raise_signal(number)
            assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_a_held_signal_comes_at_the_end() -> None:
    steps: list[str] = []

    def work() -> None:
        with held_signals():
            signal.raise_signal(signal.SIGTERM)
            steps.append("whole")
        steps.append("after")

    with pytest.raises(Terminated), stop_signals():
        work()
    assert steps == ["whole"]


def test_off_the_main_thread_nothing_changes() -> None:
    seen = []

    def work() -> None:
        with stop_signals(), held_signals():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]
