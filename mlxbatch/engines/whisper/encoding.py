"""Encoder calls side by side: one thread and one stream each, merged on the inference stream."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import mlx.core as mx

from mlxbatch import blas
from mlxbatch.engines.whisper.network import Encoder


class EncoderStreams:
    """Encodes `rows` windows a call, `streams` calls at a time.

    Each stream has a thread of its own, on which its graphs are built and evaluated: MLX's streams belong to a thread,
    and graphs for two streams that one thread schedules often run one after the other (on the CPU MLX stops
    scheduling at ten unfinished tasks). Weights are evaluated, so all threads may read them.
    """

    def __init__(self, encoder: Encoder, rows: int, streams: int) -> None:
        self._encoder, self._rows, self._streams = encoder, rows, streams
        self._device = mx.default_device()
        self._local = threading.local()
        self._pool = ThreadPoolExecutor(streams, "encode", self._open) if streams > 1 else None

    def encode(self, features: mx.array) -> mx.array:
        """Log-mel [n, 3000, n_mels], evaluated -> audio features [n, 1500, n_state], evaluated.

        A window gets the same whatever the batch: calls never mix lengths, and a row does not see its neighbours.
        """
        calls = mx.split(features, range(self._rows, len(features), self._rows))
        mx.eval(calls)
        if self._pool is None or len(calls) == 1:
            parts = [self._encoder(call) for call in calls]
        else:
            # Two pools of BLAS threads on the same cores slow each other down.
            with blas.threads(1) if self._device == mx.Device(mx.cpu) else nullcontext():
                parts = list(self._pool.map(self._call, calls))
        encoded = mx.concatenate(parts)
        mx.eval(encoded)
        return encoded

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def _open(self) -> None:
        mx.set_default_device(self._device)
        self._local.stream = mx.new_stream(self._device)

    def _call(self, features: mx.array) -> mx.array:
        with mx.stream(self._local.stream):
            encoded = self._encoder(features)
            mx.eval(encoded)
        return encoded
