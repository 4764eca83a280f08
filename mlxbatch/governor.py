"""How many rows may be worked on, by what memory says: steps at 80, 85, 90 and near 100 % of the limit. Pure.

    open      work comes in as far as its predicted need fits below 80 %
    hold      80 %: new work waits, what is live goes on
    slow      85 % and the p99 of seconds per window over its limit: one row fewer each time
    shrink    90 %: half the live rows go back into the queue
    fallback  90 % where a smaller model is named: it takes over
    reclaim   near 100 %: memory kept for reuse is given back, nothing comes in
    refuse    90 % where the user wants no waiting: the run ends

Up at once, down only after the share has been below the step for a while and by a margin: hysteresis, without which a
row that leaves and one that comes would make a step each. Rows grow back by doubling, one settling time after another.
With nothing live one row is always let in: a job is done or fails, and is never waited for.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Literal

from mlxbatch.machine import Machine, Pressure
from mlxbatch.metrics import percentile
from mlxbatch.types import Allowance, Readings

HOLD, SLOW, SHRINK, RECLAIM = 0.80, 0.85, 0.90, 0.97
# A step is left when the share is this much below it...
MARGIN = 0.05
# ...for so many seconds; and so long a step is given to show what it did before it is taken again.
SETTLE = 2.0
# Share of the machine's memory that is left to others, however much we may use.
RESERVE = 0.05
# Windows whose latency counts: enough for a p99, few enough to be of now; and so many at least to judge by.
LATENCIES, FEWEST = 200, 5

Step = Literal["open", "hold", "slow", "shrink", "fallback", "reclaim", "refuse"]
Why = Literal["memory", "out of memory", "pressure", "latency", "cache"]
# From which share on each level holds, and the level that each step belongs to.
LEVELS = (0.0, HOLD, SHRINK, RECLAIM)
LEVEL_OF: dict[Step, int] = {"open": 0, "hold": 1, "slow": 1, "shrink": 2, "fallback": 2, "refuse": 2, "reclaim": 3}
# The share that the system's own word stands for: it knows of swapping and compression, which no counter here shows.
PRESSURE_SHARE: dict[Pressure, float] = {"normal": 0.0, "warn": HOLD, "critical": RECLAIM}


@dataclass(frozen=True, slots=True)
class Policy:
    """What the user wants: the profile's [governor]."""

    refuse: bool = False
    fallback: bool = False
    latency_limit: float | None = None


@dataclass(frozen=True, slots=True)
class Room:
    """What the engine may hold: bytes of the limit, of its weights, and those that work takes whatever the rows
    (Engine.working); rows at most and to begin with.
    """

    limit: int
    weights: int
    most_rows: int
    rows: int
    working: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """A step that was taken, with its numbers; `share` is of `limit`, `used` and `available` are bytes."""

    step: Step
    was: Step
    why: Why
    share: float
    used: int
    limit: int
    rows: int
    live: int
    available: int
    pressure: Pressure


class Governor:
    """Fed with readings as they come; `allowance` is what holds now."""

    def __init__(self, room: Room, policy: Policy | None = None) -> None:
        self.room, self.policy = room, policy or Policy()
        self.step: Step = "open"
        self.allowance = Allowance(room.rows)
        self._need = 0
        self._correction = 1.0
        self._latencies: deque[float] = deque(maxlen=LATENCIES)
        self._shortages = 0
        self._acted = self._above = float("-inf")

    def needs(self, row: int) -> None:
        """Bytes that one more row is predicted to take (Engine.need): that of the largest job at hand."""
        self._need = row

    def latency(self, seconds: float) -> None:
        """A window took so long; one that was skipped as silence took no time, and tells nothing."""
        if seconds > 0:
            self._latencies.append(seconds)

    def renewed(self) -> None:
        """Another process is at work: its counters begin anew."""
        self._shortages = 0

    def observe(self, readings: Readings, around: Machine, now: float) -> Change | None:
        """Take readings at `now` seconds; what changes, if anything. `allowance` is to be sent on after a change."""
        used = max(readings.active, readings.peak)
        limit = self._limit(used + readings.cache, around)
        share = max(used / limit, PRESSURE_SHARE[around.pressure])
        self._learn(used, readings.live)
        short = readings.shortages > self._shortages
        self._shortages = readings.shortages
        step = self._step(self._level(share, short, now), share)
        allowance = self._act(step, readings, limit, now)
        cache = step == self.step and allowance.reclaims > self.allowance.reclaims and step != "reclaim"
        if allowance == self.allowance and step == self.step:
            return None
        was, self.step, self.allowance = self.step, step, allowance
        why = "cache" if cache else self._why(step, short, share > used / limit)
        return Change(
            step, was, why, share, used, limit, allowance.rows, readings.live, around.available, around.pressure
        )

    # ---- how much there is, and how much a row takes

    def _limit(self, held: int, around: Machine) -> int:
        """The limit, or what we hold and can still get without taking what the machine needs, where that is less."""
        within_reach = held + around.available - int(RESERVE * around.total)
        return min(self.room.limit, max(self.room.weights, within_reach, 1))

    def _learn(self, used: int, live: int) -> None:
        """How far off predictions were: up at once, down slowly."""
        if live and self._need:
            predicted = self.room.working + live * self._need
            seen = max(0, used - self.room.weights) / predicted
            self._correction = min(4.0, max(seen, 0.9 * self._correction + 0.1 * seen, 0.1))

    def _predicted_rows(self, limit: int) -> int:
        """Rows whose corrected need fits below 80 % of `limit` bytes, 1 at least."""
        if not self._need:
            return self.room.most_rows
        rest = HOLD * limit - self.room.weights - self.room.working
        fitting = rest / (self._need * self._correction)
        return max(1, min(self.room.most_rows, int(fitting)))

    # ---- which step

    def _level(self, share: float, short: bool, now: float) -> int:
        """The level of this share; a lower one than now only once the share has settled below it."""
        seen = sum(share >= threshold for threshold in LEVELS[1:])
        seen = max(seen, LEVEL_OF["shrink"]) if short else seen
        current = LEVEL_OF[self.step]
        if seen >= current or share >= LEVELS[current] - MARGIN:
            self._above = now
        return max(seen, current) if now - self._above < SETTLE else seen

    def _step(self, level: int, share: float) -> Step:
        """What is done at a level: at 90 % what the user chose, else fewer rows."""
        if level >= LEVEL_OF["refuse"] and self.policy.refuse:
            return "refuse"
        if level >= LEVEL_OF["fallback"] and self.policy.fallback:
            return "fallback"
        if level == LEVEL_OF["slow"] and self._late and share >= (SLOW - MARGIN if self.step == "slow" else SLOW):
            return "slow"
        steps: tuple[Step, ...] = ("open", "hold", "shrink", "reclaim")
        return steps[level]

    @property
    def _late(self) -> bool:
        """Whether the p99 of seconds per window, under the rows as they are, is over its limit."""
        limit = self.policy.latency_limit
        if limit is None or len(self._latencies) < FEWEST:
            return False
        p99 = percentile(self._latencies, 99)
        return p99 is not None and p99 > limit

    def _why(self, step: Step, short: bool, pressed: bool) -> Why:
        if short:
            return "out of memory"
        if step == "slow":
            return "latency"
        return "pressure" if pressed else "memory"

    # ---- what it does

    def _act(self, step: Step, readings: Readings, limit: int, now: float) -> Allowance:
        """The allowance of a step. What lowers or raises it is given time to show before it is done again."""
        before = self.allowance
        hold = step in ("hold", "slow", "reclaim")
        if LEVEL_OF[step] == LEVEL_OF[self.step] and now - self._acted < SETTLE:
            return replace(before, hold=hold)
        rows, reclaims = before.rows, before.reclaims
        # Between two batches no row is live, whatever the last one took.
        at_work = min(rows, readings.live) if readings.live else rows
        if step == "open":
            # Rows that are live are never sent back for a prediction.
            rows = max(min(2 * rows, self._predicted_rows(limit)), min(rows, readings.live))
        elif step == "slow":
            rows = max(1, at_work - 1)
            self._latencies.clear()  # those of more rows say nothing of fewer
        elif step in ("shrink", "reclaim"):
            rows = max(1, at_work // 2)
        reclaims += step == "reclaim" or self._cache_is_full(readings, limit)
        after = Allowance(rows, hold, reclaims)
        if step != self.step or after != before:
            self._acted = now
        return after

    def _cache_is_full(self, readings: Readings, limit: int) -> bool:
        """Whether memory kept for reuse has filled what is left of the limit: time to give it back."""
        used = max(readings.active, readings.peak)
        return used + readings.cache >= RECLAIM * limit and readings.cache >= RESERVE * limit
