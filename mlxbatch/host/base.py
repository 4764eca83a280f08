"""What a host is, and what all kinds of it share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from mlxbatch.engines.base import EngineSpec, Jobs
from mlxbatch.errors import DeviceLost
from mlxbatch.types import Allowance
from mlxbatch.worker import Beat, Event, Loaded, Needs, Raised

R = TypeVar("R")

# Seconds that `close` waits for each thread: longer only when it is in the middle of something that nobody awaits.
GRACE = 1.0
# Seconds without progress after which a child counts as dead, where nothing else is said.
STALL_TIMEOUT = 600.0


@dataclass(frozen=True, slots=True)
class Changed:
    """What became of the engine's process. Another one is there, or the run is about to end."""

    what: Literal["died", "stalled", "renewed"]
    cause: str = ""


Happening = Event | Beat | Changed


class EngineHost(ABC):
    """`start`, then `load`, then `needs` and `run`; close it whatever happened."""

    def __init__(self, spec: EngineSpec) -> None:
        self.spec = spec

    @abstractmethod
    def start(self) -> None:
        """Begin to load the engine and come back at once."""

    @abstractmethod
    def load(self) -> Loaded:
        """Wait until the engine is loaded; raises what loading raised."""

    @abstractmethod
    def needs(self, seconds: Sequence[float]) -> Needs:
        """`Engine.need` for each length, and `Engine.working` with the longest."""

    @abstractmethod
    def run(self, jobs: Jobs, allowance: Allowance) -> Generator[Happening, None, None]:
        """Run the jobs within an allowance. A job that was begun anew repeats its windows.

        Closing the generator early closes the host, and so does an error: what still runs belongs to nobody.
        """

    @abstractmethod
    def allow(self, allowance: Allowance) -> None:
        """Another allowance from now on."""

    @abstractmethod
    def renew(self) -> None:
        """Take another process once the jobs that this one has are done; where there is no process, do nothing."""

    @abstractmethod
    def close(self) -> None:
        """Stop at once, whatever runs. More than once is fine."""


@dataclass(frozen=True, slots=True)
class Died:
    """The engine's process has ended."""

    cause: str


def expect(reply: object, kind: type[R]) -> R:
    """The reply that was awaited; raises what the engine raised, DeviceLost where it died."""
    if isinstance(reply, kind):
        return reply
    if isinstance(reply, Raised):
        if reply.error is not None:
            raise reply.error
        raise RuntimeError(f"the engine raised {reply.cause}\n{reply.trace}")
    if isinstance(reply, Died):
        raise DeviceLost(reply.cause)
    raise AssertionError(f"expected {kind.__name__}, got {reply!r}")
