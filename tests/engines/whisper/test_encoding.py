"""Encoder calls side by side give what one after the other gives."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import mlx.core as mx
import pytest

from mlxbatch.engines.whisper import network
from mlxbatch.engines.whisper.encoding import EncoderStreams
from mlxbatch.models.check import check_whisper


@pytest.fixture(scope="module")
def encoder(tiny: Path) -> network.Encoder:
    files = check_whisper(tiny)
    return network.load(list(files.weights), json.loads(files.config.read_text("utf-8")), mx.float32).encoder


@pytest.mark.parametrize(("rows", "streams"), [(1, 1), (1, 2), (2, 2), (4, 1), (8, 3)])
@pytest.mark.parametrize("count", [1, 3])
def test_calls_and_streams_change_nothing(encoder: network.Encoder, rows: int, streams: int, count: int) -> None:
    features = mx.random.uniform(-1, 1, (count, 3000, 80), key=mx.random.key(1))
    mx.eval(features)
    with closing(EncoderStreams(encoder, rows, streams)) as streams_of:
        found = [streams_of.encode(features) for _ in range(2)]
    alone = mx.concatenate([encoder(features[i : i + 1]) for i in range(count)])
    for encoded in found:
        assert encoded.shape == (count, 1500, 64)
        assert mx.abs(encoded - alone).max().item() < 1e-5


def test_an_error_in_a_stream_comes_out(encoder: network.Encoder) -> None:
    with closing(EncoderStreams(encoder, 1, 2)) as streams, pytest.raises(ValueError, match="broadcast"):
        streams.encode(mx.zeros((2, 3400, 80)))
