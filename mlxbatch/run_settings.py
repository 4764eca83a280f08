"""How a run goes: what the runner is given beside the items and the hosts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from mlxbatch import wishes
from mlxbatch.headerless import DEFAULTS, Rules, departure
from mlxbatch.overseer import Oversight
from mlxbatch.speakers import labelled
from mlxbatch.state import FOLDER
from mlxbatch.stored import named_key, with_rule
from mlxbatch.types import Item, Probed, TranscribeOptions, Transcript
from mlxbatch.writers import LineRules


@dataclass(frozen=True, slots=True)
class ModelKey:
    """A model's name and hash, and the inference key of what it makes under some options.

    `inference_key` is asked of every item, and so remembers what it has worked out.
    """

    name: str
    inference_key: Callable[[TranscribeOptions], str]
    sha: str = ""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """`models` are those of the hosts, in their order; a result of any of them counts as done.

    `options` and `speakers`, the names of channels, hold for every item that has no wishes of its own. `lines` are the
    rules for subtitles; `rendering_key` knows them.
    `stop_at` is on pacing.clock: from then on nothing is begun. `min_free` bytes of the output's disk stay free.
    `headerless` are the rules for recordings without a header, by suffix.
    """

    output: Path
    formats: tuple[str, ...]
    models: tuple[ModelKey, ...]
    rendering_key: str
    options: TranscribeOptions = field(default_factory=TranscribeOptions)
    speakers: tuple[str, ...] = ()
    lines: LineRules = field(default_factory=LineRules)
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

    @property
    def scratch(self) -> Path:
        return self.output / FOLDER / "tmp"

    def options_for(self, item: Item) -> TranscribeOptions:
        return wishes.options_for(self.options, item)

    def inference_keys_for(self, item: Item) -> list[str]:
        """The key of each model for one item: a rule of the profile's that its samples depend on belongs to it."""
        return self._keys(item, self.options_for(item))

    def stored_keys_for(self, item: Item) -> list[str]:
        """The keys of the stored results that will do: where no words are asked for, one with words as well."""
        options = self.options_for(item)
        ways = [options] if options.words else [options, replace(options, words=True)]
        return [key for way in ways for key in self._keys(item, way)]

    def _keys(self, item: Item, options: TranscribeOptions) -> list[str]:
        departed = departure(item.source, self.headerless)
        return [with_rule(model.inference_key(options), departed) for model in self.models]

    def rendering_key_for(self, item: Item) -> str:
        return named_key(self.rendering_key, wishes.speakers_for(self.speakers, self.options, item))

    def labelled(self, transcript: Transcript, item: Item) -> Transcript:
        """The transcript with the names that its channels have in this run."""
        names = wishes.speakers_for(self.speakers, self.options, item)
        return labelled(transcript, names, self.options_for(item).channels)

    def rows(self, probed: Probed) -> int:
        """See `wishes.rows`."""
        return wishes.rows(probed, self.options)
