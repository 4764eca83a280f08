"""Every operation runs at the shapes of its call, and the whole call is made of the same parts."""

from __future__ import annotations

import mlx.core as mx
import pytest

from benchmarks import operations
from tests.models.tiny import TINY_DIMS, write_tiny_whisper

FRAMES, ROWS = 200, 3


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> tuple[operations.Network, operations.Rules]:
    return operations.load(write_tiny_whisper(tmp_path_factory.mktemp("tiny") / "model"))


def test_all_layers_of_the_encoder_are_counted(parts: tuple[operations.Network, operations.Rules]) -> None:
    times = {one.name: one.times for one in operations.encoder_operations(parts[0], FRAMES)}
    assert times["layer norm"] == 2 * TINY_DIMS.n_audio_layer + 1
    assert times["GEMM: query, key, value, out"] == 4 * TINY_DIMS.n_audio_layer
    assert times["softmax: attention"] == TINY_DIMS.n_audio_layer


def test_a_written_cache_gives_all_positions_and_hides_those_to_come() -> None:
    cache = operations.WrittenCache(1, (2, 1, 4, 1))
    keys, _, seen = cache.append(0, mx.ones((2, 1, 1, 1)), mx.ones((2, 1, 1, 1)))
    assert keys[:, 0, :, 0].tolist() == [[0, 0, 1, 0]] * 2
    assert seen is not None
    assert seen[:, 0, 0].tolist() == [[True, True, True, False]] * 2


def test_the_report_has_a_line_for_each(
    parts: tuple[operations.Network, operations.Rules], capsys: pytest.CaptureFixture[str]
) -> None:
    operations.report(*parts, FRAMES, ROWS, repeat=1)
    printed = capsys.readouterr().out
    for one in (*operations.encoder_operations(parts[0], FRAMES), *operations.decoder_operations(*parts, ROWS, FRAMES)):
        assert f"| {one.name} " in printed
    assert printed.count("the call as it is") == 2
