"""What is done about what is seen: the host hears of it, the log does, and the run may end. The host only listens."""

from __future__ import annotations

from typing import Any

import pytest

from mlxbatch.engines.base import EngineSpec
from mlxbatch.governor import SETTLE, Policy, Room
from mlxbatch.host import Changed
from mlxbatch.host.thread import ThreadHost
from mlxbatch.machine import Machine
from mlxbatch.overseer import Overseer, Oversight, Refused, TakeOver
from mlxbatch.types import Allowance, JobFailed, Output, Readings, Resident, WindowStats
from mlxbatch.worker import Beat, Event, Loaded

MB = 10**6
ROOM = Room(limit=1000 * MB, weights=100 * MB, most_rows=8, rows=8)
LOADED = Loaded(100 * MB, 1000 * MB, 16_000, Readings(active=100 * MB))


class Listening(ThreadHost):
    """Never started: it hears what is asked of it."""

    def __init__(self) -> None:
        super().__init__(EngineSpec("fake"))
        self.allowances: list[Allowance] = []
        self.renewals = 0

    def allow(self, allowance: Allowance) -> None:
        self.allowances.append(allowance)

    def renew(self) -> None:
        self.renewals += 1


class Desk:
    """An overseer, its host, and a clock."""

    def __init__(self, policy: Policy | None = None, **oversight: Any) -> None:
        self.now, self.looks = 1000.0, 0
        self.host = Listening()
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.overseer = Overseer(
            self.host,
            LOADED,
            ROOM,
            Oversight(policy or Policy(), **oversight),
            lambda kind, facts: self.told.append((kind, facts)),
            look=self.look,
            clock=lambda: self.now,
        )

    def look(self) -> Machine:
        self.looks += 1
        return Machine(100_000 * MB, 128_000 * MB, "normal", 1.5)

    def see(self, used: int, live: int = 8, later: float = SETTLE + 0.1) -> None:
        self.now += later
        self.overseer.see(Beat(Readings(active=used * MB, peak=used * MB, rss=used * MB, live=live)))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [facts for name, facts in self.told if name == kind]


def test_a_step_reaches_the_host_and_the_log() -> None:
    desk = Desk()
    desk.see(500)
    assert (desk.host.allowances, desk.of("governor")) == ([], [])
    desk.see(920)
    assert desk.host.allowances == [Allowance(4)]
    (facts,) = desk.of("governor")
    assert (facts["step"], facts["was"], facts["why"]) == ("shrink", "open", "memory")
    assert (facts["share"], facts["used"], facts["limit"]) == (0.92, 920 * MB, 1000 * MB)
    assert (facts["rows"], facts["live"]) == (4, 8)


def test_the_same_step_again_and_again_is_told_once() -> None:
    desk = Desk()
    for _ in range(10):
        desk.see(990, live=1)
    assert [facts["step"] for facts in desk.of("governor")] == ["reclaim"]
    assert [allowance.reclaims for allowance in desk.host.allowances] == list(range(1, 11))


@pytest.mark.parametrize(
    ("policy", "error", "message"),
    [
        (
            Policy(refuse=True),
            Refused,
            r"memory is at 95% of 1\.00 GB .*--on-pressure refuse .*run the same",
        ),
        (Policy(fallback=True), TakeOver, "95%"),
    ],
)
def test_what_ends_the_run_is_told_first(policy: Policy, error: type[Exception], message: str) -> None:
    desk = Desk(policy)
    with pytest.raises(error, match=message):
        desk.see(950)
    assert [facts["step"] for facts in desk.of("governor")] == ["refuse" if policy.refuse else "fallback"]


def test_latencies_come_from_finished_windows() -> None:
    desk = Desk(Policy(latency_limit=1.0))
    output = Output(0, 0, (), WindowStats(0.0, 1.0, 1, latency=3.0), last=True)
    for _ in range(20):
        desk.overseer.see(Event(output, Readings(active=870 * MB, live=8)))
    assert [facts["step"] for facts in desk.of("governor")] == ["hold", "slow"]


def test_a_failure_without_readings_says_nothing_of_memory() -> None:
    desk = Desk()
    desk.see(850)
    desk.overseer.see(Event(JobFailed(0, "killed"), Readings()))
    assert [facts["step"] for facts in desk.of("governor")] == ["hold"]
    assert desk.overseer.allowance.hold


def test_what_became_of_the_process_is_told() -> None:
    desk = Desk()
    desk.overseer.see(Changed("died", "killed by SIGKILL"))
    assert desk.of("child") == [{"what": "died", "cause": "killed by SIGKILL"}]


def test_a_switch_of_models_is_told_and_a_new_process_is_none() -> None:
    desk = Desk()

    def see(resident: Resident) -> None:
        desk.overseer.see(Beat(Readings(active=MB, resident=resident)))

    see(Resident())
    see(two := Resident(("whisper", "silero"), 12, loads=2))
    see(two)
    see(Resident(("enhancer",), 9, loads=3, evictions=2))
    assert desk.of("switch") == [
        {"models": ["whisper", "silero"], "bytes": 12, "loads": 2, "evictions": 0},
        {"models": ["enhancer"], "bytes": 9, "loads": 3, "evictions": 2},
    ]
    desk.overseer.see(Changed("renewed"))
    see(Resident(("whisper",), 10, loads=1))
    assert len(desk.of("switch")) == 2


def test_a_busy_machine_holds_what_is_not_live_yet() -> None:
    desk = Desk()
    desk.overseer.busy(False)
    desk.overseer.busy(True)
    desk.overseer.busy(True)
    desk.see(920)
    desk.overseer.busy(False)
    assert desk.host.allowances == [Allowance(8, hold=True), Allowance(4, hold=True), Allowance(4)]


def test_samples_get_rarer() -> None:
    desk = Desk()
    for _ in range(2000):
        desk.see(500, later=0.5)
    times = len(desk.of("sample"))
    assert 250 < times < 350, "one a second at first, then every hundredth of the time so far"
    first = desk.of("sample")[0]
    assert first["share"] == 0.5
    assert (first["active"], first["limit"], first["live"], first["rows"]) == (500 * MB, 1000 * MB, 8, 8)
    assert first["load"] == 1.5
    assert desk.looks < 2010


def test_a_leak_is_told_and_the_process_renewed() -> None:
    desk = Desk(leak_bound="50MB")
    for number in range(40):
        desk.see(200 + 5 * number)
        desk.overseer.group_done({"group": number, "longest": 12.0})
    (leak,) = desk.of("leak")
    assert (leak["what"], leak["per_group"], desk.host.renewals) == ("active", 5 * MB, 1)
    assert len(desk.of("group")) == 40


def test_memory_far_above_that_of_earlier_runs_is_told_once() -> None:
    shape = "abc:float32:8x30"
    known = {f"{shape}:peak": 300 * MB, f"{shape}:active": 300 * MB, f"{shape}:rss": 900 * MB}
    desk = Desk(leak_bound="10%", model_sha="abc", dtype="float32", baselines=known)
    for number in range(3):
        desk.see(390 if number == 0 else 450)
        desk.overseer.group_done({"group": number, "longest": 12.0})
    found = {"what": "baseline", "size": 450 * MB, "baseline": 300 * MB, "bound": 100 * MB}
    assert desk.of("leak") == [
        {**found, "of": "peak", "key": f"{shape}:peak"},
        {**found, "of": "active", "key": f"{shape}:active"},
    ]
    assert desk.host.renewals == 2
    assert desk.overseer.baselines() == {
        f"{shape}:peak": 315 * MB,
        f"{shape}:active": 315 * MB,
        f"{shape}:rss": 855 * MB,
    }
