"""Windows encoded ahead: side by side as one after the other, in order, and given back when something goes wrong."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import mlx.core as mx
import pytest

from mlxbatch.encoder_context import Context
from mlxbatch.engines.whisper import network
from mlxbatch.engines.whisper.encoding import EncodeAhead, Encoded
from mlxbatch.engines.whisper.slots import Sound
from mlxbatch.engines.whisper.windows import Window
from mlxbatch.models.check import check_whisper
from tests.engines.whisper.parts import job, noise


@pytest.fixture(scope="module")
def tiny_network(tiny: Path) -> network.Network:
    files = check_whisper(tiny)
    return network.load(list(files.weights), json.loads(files.config.read_text("utf-8")), mx.float32)


def windows(count: int) -> list[Window]:
    return [Window(job(number, noise(1600, number)), (0, 1600), [(0, 1600)]) for number in range(count)]


def mels(lengths: list[int]) -> list[mx.array]:
    found = [mx.random.uniform(-1, 1, (n, 80), key=mx.random.key(i)) for i, n in enumerate(lengths)]
    mx.eval(found)
    return found


def taken(ahead: EncodeAhead, most: int) -> Iterator[Encoded]:
    while some := ahead.take(most, wait=True):
        yield some


@pytest.mark.parametrize(("rows", "streams"), [(1, 1), (1, 2), (2, 2), (4, 1), (8, 3)])
@pytest.mark.parametrize("lengths", [[3000], [3000, 3000, 1500], [1000, 1500, 1500, 1500, 3000, 1000]])
@pytest.mark.parametrize("most", [1, 8])
def test_calls_streams_and_portions_change_nothing(
    tiny_network: network.Network, rows: int, streams: int, lengths: list[int], most: int
) -> None:
    context, features, given = Context(), mels(lengths), windows(len(lengths))

    def encode(mel: mx.array) -> Sound:
        encoded, counts = tiny_network.encoder(mel, context.stretches(mel.shape[1]))
        return Sound.of([(encoded[:, None], encoded[:, None])], counts)

    with closing(EncodeAhead(rows, streams)) as ahead:
        ahead.put(encode, given, features)
        assert ahead.windows == len(given)
        found = list(taken(ahead, most))
        assert ahead.windows == 0
    assert [window for some in found for window in some.windows] == given
    assert all(len(some.windows) <= min(rows, most) for some in found)
    sounds = [some.sound.rows(i, i + 1) for some in found for i in range(len(some.windows))]
    for sound, mel in zip(sounds, features, strict=True):
        alone, counts = tiny_network.encoder(mel[None], context.stretches(len(mel)))
        assert sound.lengths == (len(counts),)
        assert mx.array_equal(sound.counts[0], counts)
        assert mx.abs(sound.cross[0][0][:, 0] - alone).max().item() < 5e-5


def test_what_is_not_done_is_not_waited_for_unless_asked() -> None:
    go = threading.Event()

    def encode(mel: mx.array) -> Sound:
        assert go.wait(10)
        return Sound.of([(mel[:, None], mel[:, None])], mx.zeros(mel.shape[1]))

    with closing(EncodeAhead(1, 1)) as ahead:
        ahead.put(encode, windows(1), mels([10]))
        assert ahead.take(1, wait=False) is None
        go.set()
        assert ahead.take(1, wait=True) is not None
        assert ahead.take(1, wait=True) is None  # nothing is on its way


def test_what_goes_wrong_is_raised_in_its_turn_and_all_windows_come_back() -> None:
    given = windows(3)

    def encode(mel: mx.array) -> Sound:
        if mel.shape[1] == 20:
            raise RuntimeError("no such luck")
        return Sound.of([(mel[:, None], mel[:, None])], mx.zeros(mel.shape[1]))

    with closing(EncodeAhead(1, 2)) as ahead:
        ahead.put(encode, given, mels([10, 20, 30]))
        first = ahead.take(4, wait=True)
        assert first is not None
        assert first.windows == given[:1]
        with pytest.raises(RuntimeError, match="no such luck"):
            ahead.take(4, wait=True)
        assert ahead.withdraw() == given[1:]
        assert ahead.windows == 0
        assert {span.stage for span in ahead.spans()} == {"encode"}
