"""Between the host and what watches over it: readings in, allowances out, and each step told.

The judgement is `governor`'s and `leaks`'; what is done about it is done here: the host gets another allowance, its
process is renewed, the run ends, or the smaller model takes over.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from mlxbatch.budget import parse_amount
from mlxbatch.errors import MlxBatchError, SetupError
from mlxbatch.governor import Change, Governor, Policy, Room
from mlxbatch.host import Changed, EngineHost, Happening
from mlxbatch.leaks import Baselines, LeakWatch, shape_key
from mlxbatch.machine import Machine, Sampler, read_machine, rss
from mlxbatch.types import Allowance, Output, Readings, Resident
from mlxbatch.worker import Event, Loaded

# Seconds for which a look at the machine holds.
LOOK = 0.5
# Samples of the log: one a second at first, then every hundredth of the time so far. A run of ten hours has some 700.
SAMPLE, SAMPLE_SHARE = 1.0, 0.01
# Seconds by which the longest recordings of groups are told apart where peaks are compared: a window's.
BUCKET = 30

Tell = Callable[[str, dict[str, Any]], None]


class Refused(SetupError):
    """Memory is short, and the user wants the run to end rather than wait."""


class TakeOver(MlxBatchError):
    """Memory is short, and the smaller model is to go on: the runner's business, never an error of the run."""


@dataclass(frozen=True, slots=True)
class Oversight:
    """What a run is watched by: the profile's [governor]. `leak_bound` is a size, or a share of the memory limit.

    `baselines` are what earlier runs took, peak, active and resident bytes by `leaks.shape_key`, of which `model_sha`
    and `dtype` are parts.
    """

    policy: Policy = field(default_factory=Policy)
    leak_bound: str = "10%"
    device: Literal["cpu", "gpu"] = "cpu"
    model_sha: str = ""
    dtype: str = ""
    baselines: Mapping[str, int] = field(default_factory=dict)


class Overseer:
    """Watches over one host while it runs. `tell` gets events: their kind, and facts as JSON can hold them."""

    def __init__(
        self,
        host: EngineHost,
        loaded: Loaded,
        room: Room,
        oversight: Oversight,
        tell: Tell,
        *,
        look: Callable[[], Machine] = read_machine,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host, self._tell, self._clock, self._look = host, tell, clock, look
        self._governor = Governor(room, oversight.policy)
        bound = parse_amount(oversight.leak_bound, loaded.memory_limit)
        self._leaks, self._baselines = LeakWatch(bound), Baselines(oversight.baselines, bound)
        self._shape = oversight.model_sha, oversight.dtype
        self._peak = 0  # of the group that is at work
        self._began = self._looked = clock()
        self._sampler = Sampler(self._began, kind=oversight.device)
        self._sampled = float("-inf")
        self._machine = look()
        self._told: tuple[str, int, str] | None = None
        self._busy = False
        self._last = loaded.readings
        self._resident: Resident | None = loaded.readings.resident

    @property
    def allowance(self) -> Allowance:
        """The governor's, and nothing new while the machine is busy with others' work."""
        allowance = self._governor.allowance
        return replace(allowance, hold=allowance.hold or self._busy)

    def busy(self, busy: bool) -> None:
        """Whether the machine is over `--max-load`: what the engine has taken on goes on, and no row joins it."""
        if busy != self._busy:
            self._busy = busy
            self._host.allow(self.allowance)

    def needs(self, row: int) -> None:
        """Bytes that one more row is predicted to take."""
        self._governor.needs(row)

    def see(self, happening: Happening) -> None:
        """Act on what the host says. Raises Refused and TakeOver."""
        if isinstance(happening, Changed):
            self._governor.renewed()
            self._leaks.renewed()
            self._resident = None  # what the new process has loaded is what there is
            self._tell("child", {"what": happening.what, "cause": happening.cause})
            return
        if isinstance(happening, Event) and isinstance(happening.output, Output):
            self._governor.latency(happening.output.stats.latency)
        now = self._clock()
        if happening.readings != Readings():  # a job that its child's death has settled comes without
            self._govern(happening.readings, now)
            self._see_models(happening.readings.resident)
        self._sample(now)

    def _see_models(self, resident: Resident) -> None:
        """Tell of a model that was loaded since the last look, and of those that had to leave for it."""
        if self._resident is not None and resident != self._resident:
            self._tell("switch", {**asdict(resident), "models": list(resident.models)})
        self._resident = resident

    def _govern(self, readings: Readings, now: float) -> None:
        self._last, self._peak = readings, max(self._peak, readings.peak)
        if now - self._looked >= LOOK:
            self._machine, self._looked = self._look(), now
        change = self._governor.observe(readings, self._machine, now)
        if change is not None:
            self._follow(change)

    def _follow(self, change: Change) -> None:
        self._host.allow(self.allowance)
        news = (change.step, change.rows, change.why)
        if news != self._told:  # the same again and again would fill the log of a night
            self._told = news
            self._tell("governor", _rounded(asdict(change)))
        if change.step == "refuse":
            raise Refused(
                f"memory is at {change.share:.0%} of {change.limit / 1e9:.2f} GB ({change.why}): the run ends, as "
                "--on-pressure refuse says; what is finished is kept, run the same command again to go on"
            )
        if change.step == "fallback":
            raise TakeOver(f"memory is at {change.share:.0%}")

    def _sample(self, now: float) -> None:
        if now - self._sampled < max(SAMPLE, SAMPLE_SHARE * (now - self._began)):
            return
        self._sampled = now
        last, governor = self._last, self._governor
        facts = {
            "active": last.active,
            "cache": last.cache,
            "peak": last.peak,
            "live": last.live,
            "rows": governor.allowance.rows,
            "share": max(last.active, last.peak) / governor.room.limit,
            "limit": governor.room.limit,
        }
        self._tell("sample", _rounded({**self._sampler.sample(now, self._machine), **facts, "rss": last.rss}))

    def group_done(self, facts: dict[str, float]) -> None:
        """The last recording of a group is finished: the moment at which memory is compared."""
        last, parent = self._last, rss(os.getpid()) or 0
        own = max(0, last.rss - last.cache)
        self._tell("group", _rounded({**facts, "active": last.active, "rss": last.rss, "parent_rss": parent}))
        key = shape_key(*self._shape, self.allowance.rows, math.ceil(facts["longest"] / BUCKET) * BUCKET)
        for of, size in (("peak", self._peak), ("active", last.active), ("rss", own)):
            excess = self._baselines.take(f"{key}:{of}", size)
            if excess is not None:
                self._renew({"what": "baseline", "of": of, **asdict(excess)})
        self._peak = last.active
        leak = self._leaks.group(last.active, own, parent)
        if leak is not None:
            self._renew(asdict(leak))

    def _renew(self, facts: dict[str, Any]) -> None:
        """Tell of memory that grew; another process gives back what the engine's holds, though not the parent's."""
        self._tell("leak", facts)
        if facts["what"] != "parent_rss":
            self._host.renew()

    def baselines(self) -> dict[str, int]:
        """What is to be remembered for later runs."""
        return self._baselines.updated()


def _rounded(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in facts.items()}
