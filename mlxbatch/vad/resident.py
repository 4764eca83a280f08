"""The detector beside an engine's model: its networks on the device as long as they are used, its thread for a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from mlxbatch.errors import show
from mlxbatch.models.residency import Residency
from mlxbatch.models.weights import loaded_bytes, weight_files
from mlxbatch.vad import detector
from mlxbatch.vad.ahead import SpeechAhead
from mlxbatch.vad.network import SileroNetwork

Networks = Mapping[int, SileroNetwork]
"""By sample rate; none where everything is to be heard."""


def resident_networks(residency: Residency, directory: Path | None) -> AbstractContextManager[Networks]:
    """The networks of a detector's directory, resident as long as they are used; none where there is no directory."""
    if directory is None:
        return nullcontext({})
    size = loaded_bytes(weight_files(directory), "float32")
    return residency.use(show(directory), lambda: detector.load(directory), size)


@contextmanager
def speech_ahead(networks: Networks, longest: int, sample_rate: int) -> Iterator[SpeechAhead | None]:
    """Where there are networks for it, speech is found ahead as long as jobs are worked on. See SpeechAhead."""
    if not networks:
        yield None
        return
    ahead = SpeechAhead(networks, longest, sample_rate)
    try:
        yield ahead
    finally:
        ahead.close()
