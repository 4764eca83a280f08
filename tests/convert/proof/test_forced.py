"""Teacher forcing: which tokens are forced, and divergences that are those worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from mlxbatch.convert.proof import forced
from mlxbatch.convert.proof.forced import Forced
from mlxbatch.encoder_context import FULL, Context
from mlxbatch.engines.whisper import network
from mlxbatch.engines.whisper.abilities import Abilities
from mlxbatch.engines.whisper.network import Network
from mlxbatch.models.check import check_whisper
from mlxbatch.types import Output, Segment, WindowStats
from tests.models.tiny import TOKEN_IDS, write_tiny_whisper

from .packed import pack

RATE = 16_000
EOT = TOKEN_IDS["<|endoftext|>"]
PROMPT = [TOKEN_IDS["<|startoftranscript|>"], TOKEN_IDS["<|en|>"], TOKEN_IDS["<|transcribe|>"]]
STAMP = TOKEN_IDS["<|0.00|>"]


def noise(seconds: float, seed: int) -> NDArray[np.float32]:
    return (np.random.default_rng(seed).standard_normal(round(seconds * RATE)) / 10).astype(np.float32)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_whisper(tmp_path_factory.mktemp("forced") / "model")


@pytest.fixture(scope="module")
def abilities(tiny: Path) -> Abilities:
    return Abilities.read(tiny)


def load(directory: Path) -> Network:
    files = check_whisper(directory)
    return network.load(list(files.weights), json.loads(files.config.read_text()), mx.float32, dequantized=True)


def output(*segments: tuple[float, float, str], start: float = 0.0, last: bool = True) -> Output:
    said = tuple(Segment(begin, end, text) for begin, end, text in segments)
    return Output(0, 0, said, WindowStats(start, 10.0, 5, 0.1), last, "en")


def test_a_text_is_forced_between_its_times(abilities: Abilities) -> None:
    said = output((12.0, 13.5, "the"), (13.5, 14.0, "and"), start=12.0)
    (found,) = forced.windows([said], noise(30, 0), 7, abilities)
    the, end = TOKEN_IDS["Ġthe"], TOKEN_IDS["Ġand"]
    assert found.clip == 7
    assert list(found.prompt) == PROMPT
    assert list(found.tokens) == [STAMP, the, STAMP + 75, STAMP + 75, end, STAMP + 100, EOT]
    np.testing.assert_array_equal(found.samples, noise(30, 0)[12 * RATE : 22 * RATE])


def test_where_another_window_goes_on_the_end_is_not_forced(abilities: Abilities) -> None:
    (found,) = forced.windows([output((0.0, 1.0, "the"), last=False)], noise(10, 0), 0, abilities)
    assert found.tokens[-1] == STAMP + 50


def test_a_window_without_text_forces_nothing(abilities: Abilities) -> None:
    assert forced.windows([output()], noise(10, 0), 0, abilities) == []


def some() -> list[Forced]:
    """Of two lengths, and texts of different lengths."""
    texts = [[STAMP, 3, 4, 5, EOT], [STAMP, 9, EOT], [STAMP, *range(40), EOT]]
    return [
        Forced(number, noise(seconds, number), tuple(PROMPT), tuple(text))
        for number, (seconds, text) in enumerate(zip((0.7, 1.0, 4.0), texts, strict=True))
    ]


def test_windows_of_one_length_share_a_batch() -> None:
    one, two = forced.batches(some(), Context(), rows=8)
    assert ([w.clip for w in one.windows], [w.clip for w in two.windows]) == ([0, 1], [2])
    assert one.tokens.shape == (2, 32)
    assert one.clips.tolist() == [0] * 5 + [1] * 3
    assert one.asked.tolist() == [2, 3, 4, 5, 6, 34, 35, 36]
    assert len(list(forced.batches(some(), Context(), rows=1))) == 3


def states(model: Network, context: Context, rows: int) -> dict[int, NDArray[np.float32]]:
    found = {}
    for batch in forced.batches(some(), context, rows):
        hidden = forced.hidden(model.decoder, batch, *forced.encode(model, batch, context, mx.float32))
        found |= {clip: np.asarray(hidden)[batch.clips == clip] for clip in np.unique(batch.clips).tolist()}
    return found


def test_a_row_gets_in_a_batch_what_it_gets_alone(tiny: Path) -> None:
    model = load(tiny)
    alone, together = states(model, Context(), 1), states(model, Context(), 8)
    for clip, found in alone.items():
        np.testing.assert_allclose(together[clip], found, atol=1e-4)


def test_it_predicts_what_the_decoder_predicts_step_by_step(tiny: Path) -> None:
    """Each token's state is that after the prompt and the tokens before it alone."""
    model, text = load(tiny), some()[0]
    (batch,) = forced.batches([text], FULL, 1)
    features, counts = forced.encode(model, batch, FULL, mx.float32)
    found = np.asarray(forced.hidden(model.decoder, batch, features, counts))
    for place in range(len(text.tokens)):
        short = Forced(0, text.samples, (*text.prompt, *text.tokens[:place]), text.tokens[place : place + 1])
        (one,) = forced.batches([short], FULL, 1)
        np.testing.assert_allclose(forced.hidden(model.decoder, one, features, counts)[0], found[place], atol=1e-4)


def by_hand(p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    p, q = (x - np.log(np.exp(x).sum(-1, keepdims=True)) for x in (p, q))
    return (np.exp(p) * (p - q)).sum(-1)


def test_the_divergence_of_two_coins() -> None:
    p, q = mx.log(mx.array([[0.5, 0.5], [0.9, 0.1]])), mx.log(mx.array([[0.25, 0.75], [0.9, 0.1]]))
    expected = 0.5 * np.log(0.5 / 0.25) + 0.5 * np.log(0.5 / 0.75)
    np.testing.assert_allclose(forced.divergence(p, q), [expected, 0.0], atol=1e-6)


@pytest.mark.parametrize("scale", [1e-3, 0.1, 3.0])
def test_the_divergence_is_that_of_double_precision(scale: float) -> None:
    rng = np.random.default_rng(3)
    p = rng.standard_normal((5, 1000)) * 4
    q = p + scale * rng.standard_normal(p.shape)
    found = np.asarray(forced.divergence(mx.array(p.astype(np.float32)), mx.array(q.astype(np.float32))))
    np.testing.assert_allclose(found, by_hand(p, q), rtol=1e-3, atol=3e-7)


def test_a_row_that_is_not_a_number_has_no_divergence() -> None:
    assert np.isnan(np.asarray(forced.divergence(mx.array([[1.0, 2.0]]), mx.array([[1.0, np.nan]])))).all()


def test_two_networks_are_as_far_apart_as_worked_out_by_hand(tiny: Path, tmp_path: Path) -> None:
    one, other = load(tiny), load(pack(tiny, tmp_path / "packed", 3))
    for batch in forced.batches(some(), Context(), 8):
        pair = [forced.hidden(m.decoder, batch, *forced.encode(m, batch, Context(), mx.float32)) for m in (one, other)]
        nats, same = forced.compare(one.decoder.logits, pair[0], other.decoder.logits, pair[1])
        p, q = (np.asarray(m.decoder.logits(s), np.float64) for m, s in zip((one, other), pair, strict=True))
        np.testing.assert_allclose(nats, by_hand(p, q), rtol=1e-3, atol=1e-6)
        np.testing.assert_array_equal(same, p.argmax(-1) == q.argmax(-1))
        nothing, all_same = forced.compare(one.decoder.logits, pair[0], one.decoder.logits, pair[0])
        assert (nothing.max(), all_same.all()) == (0.0, True)
