"""Rows in a batch: each to the bit what it is alone, in chunks as in one go; on real weights, Silero's own numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

from mlxbatch.vad import detector
from mlxbatch.vad.detector import Detector, load
from mlxbatch.vad.network import SileroNetwork, State
from tests.vad.tiny import write_tiny_silero

Samples = NDArray[np.float32]
CPU = mx.Device(mx.cpu)
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
REFERENCE = json.loads(Path(__file__).with_name("reference.json").read_text("utf-8"))["recordings"]


@pytest.fixture(scope="module", params=[16_000, 8_000])
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SileroNetwork:
    return load(write_tiny_silero(tmp_path_factory.mktemp("vad") / "model"))[request.param]


def recordings(network: SileroNetwork, lengths: Iterable[float]) -> dict[float, Samples]:
    rng, step = np.random.default_rng(5), network.sizes.step
    return {length: rng.standard_normal(int(length * step)).astype(np.float32) for length in lengths}


def probabilities(network: SileroNetwork, given: Mapping[float, Samples]) -> dict[float, NDArray[np.float32]]:
    """Of all of them at once, as many as there are rows."""
    waiting, found, rows = dict(given), {}, Detector[float](network, CPU)
    while waiting or rows.live:
        while waiting and rows.free:
            rows.join(*waiting.popitem())
        found.update(rows.advance())
    return found


@pytest.fixture
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detector, "CHUNK", 7)


@pytest.mark.usefixtures("short_chunks")
def test_a_row_gets_in_a_batch_what_it_gets_alone(network: SileroNetwork) -> None:
    given = recordings(network, [0, 0.1, 1, 2, 6.5, 7, 7.5, 14, 15, 20, 33, 60])
    together = probabilities(network, given)
    for length, samples in given.items():
        assert len(together[length]) == -(-len(samples) // network.sizes.step)
        assert np.array_equal(together[length], probabilities(network, {length: samples})[length])


@pytest.mark.usefixtures("short_chunks")
def test_the_state_is_carried_from_chunk_to_chunk(network: SileroNetwork) -> None:
    given = recordings(network, [40])
    sizes = network.sizes
    gates = network.gates(np.pad(given[40], (sizes.context, 0)), CPU)
    outputs, _ = network.recur(gates[:, None], State.zeros(1), CPU)
    assert np.allclose(probabilities(network, given)[40], network.probabilities(outputs[:, 0]), atol=1e-5)


def test_what_comes_later_changes_nothing(network: SileroNetwork) -> None:
    given = recordings(network, [30])
    start = probabilities(network, {30: given[30][: 20 * network.sizes.step]})[30]
    assert np.allclose(probabilities(network, given)[30][:20], start, atol=1e-6)


def test_a_free_row_begins_anew(network: SileroNetwork) -> None:
    given = recordings(network, [5, 9])
    rows = Detector[float](network, CPU)
    rows.join(9, given[9])
    rows.advance()
    rows.join(5, given[5])
    ((_, again),) = rows.advance()
    assert np.array_equal(again, probabilities(network, {5: given[5]})[5])


def test_louder_is_multiplied(network: SileroNetwork) -> None:
    given = recordings(network, [5])
    rows = Detector[float](network, CPU)
    rows.join(5, given[5] / 4, gain=4.0)
    ((_, found),) = rows.advance()
    assert np.array_equal(found, probabilities(network, given)[5])


@pytest.mark.real
@pytest.mark.parametrize("name", REFERENCE)
def test_probabilities_are_silero_s_own(silero_vad: Path, name: str) -> None:
    reference = REFERENCE[name]
    samples, rate = sf.read(EXAMPLES / name, dtype="float32")
    assert rate == reference["rate"]
    found = probabilities(load(silero_vad)[rate], {0: samples})[0]
    assert np.allclose(found[::4], reference["probabilities"], atol=1e-4)
