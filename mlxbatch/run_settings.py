"""How a run goes: what the runner is given beside the items and the hosts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from mlxbatch.overseer import Oversight
from mlxbatch.state import FOLDER
from mlxbatch.types import TranscribeOptions


@dataclass(frozen=True, slots=True)
class ModelKey:
    """A model's name and hash, and the inference key of what it makes under the run's options."""

    name: str
    inference_key: str
    sha: str = ""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """`models` are those of the hosts, in their order; a result of any of them counts as done.

    `stop_at` is on pacing.clock: from then on nothing is begun. `min_free` bytes of the output's disk stay free.
    """

    output: Path
    formats: tuple[str, ...]
    models: tuple[ModelKey, ...]
    rendering_key: str
    options: TranscribeOptions = field(default_factory=TranscribeOptions)
    batch_size: int = 8
    workers: int = 2
    prefetch_bytes: int = 512 * 10**6
    prefetch_items: int = 32
    force: bool = False
    retry_quarantined: bool = False
    min_free: int = 0
    stop_at: float | None = None
    max_load: float | None = None
    oversight: Oversight = field(default_factory=Oversight)

    @property
    def scratch(self) -> Path:
        return self.output / FOLDER / "tmp"
