"""Encoder calls side by side: one thread and one stream each, merged on the inference stream."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from itertools import groupby

import mlx.core as mx

from mlxbatch import blas
from mlxbatch.engines.whisper.network import Encoder


class EncoderStreams:
    """Encodes `rows` windows a call, `streams` calls at a time.

    Each stream has a thread of its own, on which its graphs are built and evaluated: MLX's streams belong to a thread,
    and graphs for two streams that one thread schedules often run one after the other (on the CPU MLX stops
    scheduling at ten unfinished tasks). Weights are evaluated, so all threads may read them.
    """

    def __init__(self, rows: int, streams: int, blas_threads: int | None = None) -> None:
        self._rows, self._blas_threads = rows, blas_threads
        self._device = mx.default_device()
        self.calls = 0  # that are done: a sign of life for whoever waits
        self._local = threading.local()
        self._pool = ThreadPoolExecutor(streams, "encode", self._open) if streams > 1 else None

    def encode(self, encoder: Encoder, features: list[mx.array]) -> list[mx.array]:
        """Log-mels [frames, n_mels], evaluated -> audio features [n, frames / 2, n_state] by stretches of equal length.

        A window gets the same whatever the batch: calls never mix lengths, and a row does not see its neighbours.
        """
        calls = [
            mx.stack(same[start : start + self._rows])
            for same in _runs(features)
            for start in range(0, len(same), self._rows)
        ]
        mx.eval(calls)
        if self._pool is None or len(calls) == 1:
            return [self._evaluated(encoder, call) for call in calls]
        # Pools of BLAS threads on the same cores slow each other down.
        with blas.threads(self._blas_threads) if self._blas_threads else nullcontext():
            return list(self._pool.map(partial(self._call, encoder), calls))

    def _evaluated(self, encoder: Encoder, features: mx.array) -> mx.array:
        encoded = encoder(features)
        mx.eval(encoded)
        self.calls += 1
        return encoded

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def _open(self) -> None:
        mx.set_default_device(self._device)
        self._local.stream = mx.new_stream(self._device)

    def _call(self, encoder: Encoder, features: mx.array) -> mx.array:
        with mx.stream(self._local.stream):
            return self._evaluated(encoder, features)


def _runs(features: list[mx.array]) -> list[list[mx.array]]:
    """Neighbours of one length together, order kept."""
    return [list(same) for _, same in groupby(features, key=lambda mel: mel.shape[0])]
