"""Rows of samples in, as they come, and enhanced out, as soon as they are known: so many, and where they were.

A row is a channel of a recording. Rows go through the network together, `BLOCK` frames of each at a time, whatever
portions their samples came in; what comes after is carried by the row, so that nothing has to be faded into another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from mlxbatch.engines.deepfilter.features import Features, Normalization, nothing
from mlxbatch.engines.deepfilter.filtering import Filtering, Found
from mlxbatch.engines.deepfilter.frames import Analysis, NoSound, Samples, Synthesis
from mlxbatch.engines.deepfilter.network import Network, State

# Frames that go through the network at once: 1 s.
BLOCK = 100


class Row:
    """One channel on its way: samples that wait, and all that is carried from frame to frame."""

    def __init__(self, network: Network) -> None:
        sizes = self._sizes = network.sizes
        self._analysis, self._normalization = Analysis(sizes), Normalization(sizes)
        self._filtering, self._synthesis = Filtering(sizes), Synthesis(sizes)
        self._state = network.start()
        self._features = nothing(0, sizes)
        # The network's first frame is found from the features of a later one; those before it are not seen.
        self._unseen = sizes.ahead
        self._ended = self._silenced = False
        self._given = 0

    def feed(self, samples: Samples) -> None:
        """Samples [n], float32. NoSound where one of them is none: the row is lost then."""
        self._analysis.feed(samples)

    def end(self) -> None:
        """No more samples come."""
        self._analysis.end()
        self._ended = True

    def take(self, block: int) -> tuple[Features, State] | None:
        """What goes through the network next: `block` frames, or those that are left of an ended row."""
        if len(self._features) < block:
            self._analyse(block - len(self._features))
        if not len(self._features) or (len(self._features) < block and not self._ended):
            return None
        taken, self._features = self._features[:block], self._features[block:]
        return taken, self._state

    def give(self, found: Found, state: State) -> Samples:
        """What the network found for the frames that were taken -> the samples that are known now."""
        self._state = state
        sound = self._synthesis.give(self._filtering.apply(found))[: self._analysis.received - self._given]
        self._given += len(sound)
        return sound

    def _analyse(self, wanted: int) -> None:
        """Find the features of as many frames more, or of those that there are."""
        count = min(wanted + self._unseen, self._analysis.frames)
        spectra = self._analysis.take(count)
        self._filtering.feed(spectra)
        seen = self._normalization.features(spectra)[self._unseen :]
        self._unseen -= count - len(seen)
        self._features = self._features.then(seen)
        if self._ended and not self._silenced and not self._analysis.frames:
            self._silenced = True
            self._filtering.feed(np.zeros((self._sizes.ahead, self._sizes.bins), np.complex64))
            self._features = self._features.then(nothing(self._sizes.ahead, self._sizes))


def enhance(network: Network, chunks: Iterable[Samples], block: int = BLOCK) -> Iterator[tuple[int, Samples | NoSound]]:
    """Chunks [rows, n] at the network's rate, of any length -> (row, the samples of it that are known now).

    In all, a row gives as many as it was fed. Nothing is clipped. A row that is no sound gives the error, once, and no
    samples after it.
    """
    rows: dict[int, Row] | None = None
    for chunk in chunks:
        rows = {number: Row(network) for number in range(len(chunk))} if rows is None else rows
        for number, row in list(rows.items()):
            try:
                row.feed(chunk[number])
            except NoSound as error:
                del rows[number]
                yield number, error
        yield from ready(network, rows, block)
    for row in (rows or {}).values():
        row.end()
    yield from ready(network, rows or {}, block)


def ready(network: Network, rows: Mapping[int, Row], block: int = BLOCK) -> Iterator[tuple[int, Samples]]:
    """What rows, which need not have begun together, can give now: (its key, samples), `block` frames at a time."""
    while taken := {key: part for key, row in rows.items() if (part := row.take(block))}:
        for length in {len(features) for features, _ in taken.values()}:
            together = {key: part for key, part in taken.items() if len(part[0]) == length}
            for key, (found, state) in _through(network, together).items():
                yield key, rows[key].give(found, state)


def _through(network: Network, taken: Mapping[int, tuple[Features, State]]) -> dict[int, tuple[Found, State]]:
    """Rows' features, equally many of each, through the network."""
    levels = np.stack([features.levels for features, _ in taken.values()])
    bins = np.stack([features.bins for features, _ in taken.values()])
    gains, filters, states = network(levels, bins, State.join([state for _, state in taken.values()]))
    taps = filters.view(np.complex64)[..., 0]
    found = [Found(*both) for both in zip(gains, taps, strict=True)]
    return dict(zip(taken, zip(found, states.rows(), strict=True), strict=True))
