"""The queries of alignment heads, kept while a text is decoded: with the audio's keys they tell when each word is said.

Few numbers a token, beside whatever computes the attention itself: a fused kernel gives no weights out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import mlx.core as mx

from mlxbatch.engines.whisper.footprint import ROUND
from mlxbatch.engines.whisper.heads import Head


class KeptQueries:
    """Queries [rows, heads, length, d] of a decode's rows, at their tokens' positions; nothing before the first."""

    def __init__(self, heads: Sequence[Head]) -> None:
        self._heads = {
            layer: mx.array([head for of, head in heads if of == layer]) for layer in sorted({of for of, _ in heads})
        }
        self._step: list[mx.array] = []
        self._held: mx.array | None = None

    def watch(self, layer: int, queries: mx.array) -> None:
        """Note a layer's queries [rows, heads, 1, d] of the step that is being decoded."""
        if layer in self._heads:
            self._step.append(queries[:, self._heads[layer], 0])

    def write(self, positions: mx.array, length: int) -> mx.array:
        """Keep the step that was watched, each row's at its own of the positions [rows]; returns all that is kept."""
        step, self._step = mx.concatenate(self._step, axis=1), []
        rows, heads, d = step.shape
        held = mx.zeros((0, heads, 0, d), step.dtype) if self._held is None else self._held
        more = (max(0, rows - held.shape[0]), max(0, length - held.shape[2]))
        if any(more):
            held = mx.pad(held, [(0, more[0]), (0, 0), (0, more[1]), (0, 0)])
        held[mx.arange(rows), :, positions] = step
        self._held = held
        return held

    def take(self, rows: mx.array) -> None:
        """These rows only, in this order."""
        if self._held is not None:
            self._held = self._held[rows]

    def scores(self, row: int, first: int, count: int, keys: Sequence[mx.array]) -> mx.array:
        """A row's queries from position `first` on times its audio's keys, scaled: float32 [heads, `count`, steps].

        Somewhat more than `count`, so that shapes stay few. `keys`: of each layer, [heads, steps, d].
        """
        assert self._held is not None
        queries = self._held[row, :, first : first + math.ceil(count / ROUND) * ROUND].astype(mx.float32)
        looked = mx.concatenate([keys[layer][heads] for layer, heads in self._heads.items()]).astype(mx.float32)
        return queries @ looked.swapaxes(-1, -2) / math.sqrt(queries.shape[-1])
