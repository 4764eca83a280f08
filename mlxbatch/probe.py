"""What a recording's header says, without decoding it."""

from __future__ import annotations

from mlxbatch.headerless import DEFAULTS, Rules
from mlxbatch.plausible import BYTES_PER_SECOND
from mlxbatch.source import open_source
from mlxbatch.types import Item, Probed


def probe(item: Item, rules: Rules = DEFAULTS) -> Probed:
    """Seconds, sample rate (Hz) and channels as the header has them; 0 seconds is a valid, empty recording.

    `rules` are for recordings without a header. Cut-off files count what is there, where their header says how many
    bytes a second takes; where the length stands nowhere (a streamed FLAC, an MP3 without a count of its frames) it is
    an estimate. Raises ItemError of stage "probe".
    """
    with open_source(item.source, "probe", rules) as source:
        most = item.source.stat().st_size / BYTES_PER_SECOND
        return Probed(item, min(source.seconds, most), source.sample_rate, source.channels)
