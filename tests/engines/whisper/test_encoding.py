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
@pytest.mark.parametrize("lengths", [[3000], [3000, 3000, 1500], [1000, 1500, 1500, 1500, 3000, 1000]])
def test_calls_and_streams_change_nothing(
    encoder: network.Encoder, rows: int, streams: int, lengths: list[int]
) -> None:
    features = [mx.random.uniform(-1, 1, (n, 80), key=mx.random.key(i)) for i, n in enumerate(lengths)]
    mx.eval(features)
    with closing(EncoderStreams(rows, streams)) as streams_of:
        found = [streams_of.encode(encoder, features) for _ in range(2)]
    for parts in found:
        encoded = [row for part in parts for row in part]
        assert [len(row) for row in encoded] == [n // 2 for n in lengths]
        for row, mel in zip(encoded, features, strict=True):
            assert mx.abs(row - encoder(mel[None])[0]).max().item() < 5e-5


def test_an_error_in_a_stream_comes_out(encoder: network.Encoder) -> None:
    with closing(EncoderStreams(1, 2)) as streams, pytest.raises(ValueError, match="broadcast"):
        streams.encode(encoder, [mx.zeros((3400, 80))] * 2)
