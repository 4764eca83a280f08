"""How a run goes: what the runner is given beside the items and the hosts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from mlxbatch.headerless import DEFAULTS, Rules, departure
from mlxbatch.overseer import Oversight
from mlxbatch.state import FOLDER
from mlxbatch.stored import with_rule
from mlxbatch.types import Item, TranscribeOptions


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
    `headerless` are the rules for recordings without a header, by suffix.
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
    headerless: Rules = field(default_factory=lambda: DEFAULTS)

    def inference_keys_for(self, item: Item) -> list[str]:
        """The key of each model for one item: a rule of the profile's that its samples depend on belongs to it."""
        departed = departure(item.source, self.headerless)
        return [with_rule(model.inference_key, departed) for model in self.models]

    @property
    def scratch(self) -> Path:
        return self.output / FOLDER / "tmp"
