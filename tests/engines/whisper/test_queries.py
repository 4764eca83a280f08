"""Queries kept while decoding, against the attention of one pass over the whole text."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from mlxbatch.engines.whisper import network
from mlxbatch.engines.whisper.network import KeysValues
from mlxbatch.engines.whisper.rules import Rules
from mlxbatch.engines.whisper.slots import PromptCache, Slots, Sound, Trial
from mlxbatch.engines.whisper.tokens import Vocabulary
from mlxbatch.models.check import check_whisper

HEADS = ((0, 1), (1, 0), (1, 1))
LIMIT = 24


@dataclass(eq=False)
class Said:
    """A text to be decoded from random audio features of a length of its own, after `before` tokens of prompt."""

    number: int
    before: int = 0
    temperature: float = 0.0
    limit: int = LIMIT
    words: bool = True

    @property
    def audio(self) -> mx.array:
        return mx.random.normal((1, 1500 - 250 * (self.number % 3), 64), key=mx.random.key(self.number))

    @property
    def end(self) -> int:
        return 300 + 100 * (self.number % 4)


class Rig:
    def __init__(self, directory: Path) -> None:
        files = check_whisper(directory)
        config = json.loads(files.config.read_text())
        self.decoder = network.load(list(files.weights), config, mx.float32).decoder
        self.vocabulary = Vocabulary.read(files.tokenizer)
        self.rules = Rules(self.vocabulary, files.dims.n_vocab)

    def slots(self, size: int) -> Slots:
        return Slots(self.decoder, self.rules, size, HEADS)

    def trial(self, said: Said, temperature: float | None = None) -> Trial:
        prompt = [5 + i for i in range(said.before)] + self.vocabulary.prompt("en", "transcribe")
        heat = said.temperature if temperature is None else temperature
        return Trial(prompt, said.end, said.limit, heat, said.number, said.words)

    def join(self, slots: Slots, said: Said) -> Trial:
        trial, cache = self.trial(said), PromptCache()
        sound = Sound.of(self.decoder.cross(said.audio), mx.zeros(said.audio.shape[1]))
        prompt = mx.array([trial.prompt])
        self.decoder(prompt, mx.arange(prompt.shape[1])[None], cache, sound.cross, sound.heard)
        slots.join(trial, sound, cache, 0)
        return trial

    def expected(self, said: Said, trial: Trial) -> NDArray[np.float32]:
        """Scores of all its tokens in one pass, teacher-forced."""
        cross: list[KeysValues] = self.decoder.cross(said.audio)
        queries: dict[int, mx.array] = {}
        fed = mx.array([trial.prompt + trial.tokens])
        self.decoder(fed, mx.arange(fed.shape[1])[None], PromptCache(), cross, None, queries.__setitem__)
        scores = [queries[layer][0, head] @ cross[layer][0][0, head].T for layer, head in HEADS]
        return np.array(mx.stack(scores))[:, len(trial.prompt) - 1 :, : said.end] / math.sqrt(32)


@pytest.fixture(scope="module")
def rig(short: Path) -> Rig:
    return Rig(short)


def check(rig: Rig, slots: Slots, said: Said, trial: Trial) -> None:
    found = slots.attention(trial)
    assert found.dtype == np.float32
    assert found.shape == (len(HEADS), len(trial.tokens) + 1, said.end)
    np.testing.assert_allclose(found, rig.expected(said, trial), atol=2e-4)


def test_rows_that_come_and_go_keep_their_own(rig: Rig) -> None:
    """Of many lengths, prompts and temperatures, some of whom nobody will ask, and more of them than slots."""
    waiting = [
        Said(n, before=7 * (n % 3), temperature=0.6 * (n % 2), limit=4 + 3 * n, words=n % 4 != 1) for n in range(8)
    ]
    slots, seated, step, seen = rig.slots(3), dict[Trial, Said](), 0, set[tuple[bool, int]]()
    while waiting or slots.live:
        if waiting and slots.free and (step % 3 == 0 or not slots.live):
            said = waiting.pop(0)
            seated[rig.join(slots, said)] = said
        for trial in slots.step():
            said = seated[trial]
            if said.words:
                check(rig, slots, said, trial)
                seen.add((trial.cut, said.number))
            slots.leave(trial)
        step += 1
    assert len(seen) == 6
    assert {cut for cut, _ in seen} == {True, False}  # texts that end, and texts that are cut off


def test_a_trial_that_begins_again_keeps_its_own(rig: Rig) -> None:
    slots, said = rig.slots(2), Said(1)
    first = rig.join(slots, said)
    neighbour = rig.join(slots, Said(2, before=9))
    while not first.finished:
        slots.step()
    again = rig.trial(said, temperature=0.9)
    slots.restart(first, again)
    while not again.finished:
        slots.step()
    assert again.tokens != first.tokens
    check(rig, slots, said, again)
    assert neighbour.finished or neighbour in slots.live


def test_log_probabilities_are_the_tokens(rig: Rig) -> None:
    slots = rig.slots(1)
    trial = rig.join(slots, Said(3))
    while not trial.finished:
        slots.step()
    assert len(trial.logprobs) == len(trial.tokens)
    assert sum(trial.logprobs) >= trial.logprob  # which counts the end of text, too
    assert max(trial.logprobs) <= 1e-5


def test_nothing_is_kept_where_nobody_asks(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[object] = []
    decode = network.Decoder.__call__

    def look(self: network.Decoder, *args: object) -> mx.array:
        watched.append(args[5] if len(args) > 5 else None)
        return decode(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(network.Decoder, "__call__", look)
    slots = rig.slots(2)
    trial = rig.join(slots, Said(1, words=False))
    while not trial.finished:
        slots.step()
    assert set(watched) == {None}
    assert slots._queries._held is None
