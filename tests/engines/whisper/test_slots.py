"""Rows that join, step together and leave: each gets what it gets alone."""

from __future__ import annotations

import json
import math
from pathlib import Path

import mlx.core as mx
import pytest

from mlxbatch.engines.whisper import network
from mlxbatch.engines.whisper.network import Network
from mlxbatch.engines.whisper.rules import Rules
from mlxbatch.engines.whisper.slots import PromptCache, Slots, Sound, Trial, prefill_length
from mlxbatch.engines.whisper.tokens import Vocabulary
from mlxbatch.models.check import check_whisper
from tests.engines.whisper.parts import short_whisper

NAN = -1  # the window that is all NaN
SHORT = {100: 300, 101: 280}  # windows of less audio, and how many positions they have
LONG = 135  # tokens: past the cache's first two lengths, 64 and 128


class Rig:
    """A network, its rules, and windows that are random audio features."""

    def __init__(self, directory: Path) -> None:
        files = check_whisper(directory)
        self.network: Network = network.load(list(files.weights), json.loads(files.config.read_text()), mx.float32)
        self.vocabulary = Vocabulary.read(files.tokenizer)
        self.rules = Rules(self.vocabulary, files.dims.n_vocab)
        self.prompt = self.vocabulary.prompt("en", "transcribe")
        self.max_tokens = LONG
        self._alone: dict[tuple[float, ...], Trial] = {}

    def slots(self, size: int) -> Slots:
        return Slots(self.network.decoder, self.rules, size)

    def trial(self, temperature: float = 0.0, seed: int = 0, end: int = 1500) -> Trial:
        return Trial(self.prompt, end, self.max_tokens, temperature, seed)

    def prefilled(self, window: int) -> tuple[Sound, PromptCache]:
        # Of different lengths, so that rows have neighbours with more audio and with less.
        length = SHORT[window] if window in SHORT else 1500 - 250 * (max(window, 0) % 3)
        audio = mx.random.normal((1, length, 64), key=mx.random.key(max(window, 0)))
        if window == NAN:
            audio = mx.full(audio.shape, mx.nan)
        sound, cache = Sound.of(self.network.decoder.cross(audio), mx.zeros(audio.shape[1])), PromptCache()
        self.network.decoder(mx.array([self.prompt]), mx.arange(3)[None], cache, sound.cross, sound.heard)
        return sound, cache

    def join(self, slots: Slots, window: int, trial: Trial) -> Trial:
        sound, cache = self.prefilled(window)
        slots.join(trial, sound, cache, 0)
        return trial

    def alone(self, window: int, temperature: float = 0.0, seed: int = 0, end: int = 1500) -> Trial:
        """What the window gets with no neighbour; decoded once for all tests."""
        key = (window, temperature, seed, end)
        if key not in self._alone:
            slots = self.slots(1)
            self._alone[key] = self.join(slots, window, self.trial(temperature, seed, end))
            while not slots.step():
                pass
        return self._alone[key]


@pytest.fixture(scope="module")
def rig(tiny: Path) -> Rig:
    """One whose texts never end: words are likelier than timestamps, and the end of text is unlikely."""
    rig = Rig(tiny)
    embedding = rig.network.decoder.token_embedding
    weight, eot = embedding.weight, rig.vocabulary.eot
    embedding.weight = mx.concatenate([3 * weight[:eot], 0 * weight[eot : eot + 1], weight[eot + 1 :]])
    return rig


@pytest.fixture(scope="module")
def ending(short: Path) -> Rig:
    """One whose texts end by themselves, most of them."""
    rig = Rig(short)
    rig.max_tokens = 32
    return rig


def same(found: Trial, wanted: Trial) -> None:
    assert found.tokens == wanted.tokens
    assert found.avg_logprob == pytest.approx(wanted.avg_logprob, abs=1e-4)


def test_a_full_row_ends(rig: Rig) -> None:
    trial = rig.alone(0)
    assert trial.finished
    assert len(trial.tokens) == LONG
    assert math.isfinite(trial.logprob)


def test_texts_differ_with_the_audio_and_end(ending: Rig) -> None:
    """Or the tests below would prove nothing."""
    texts = [ending.alone(window).tokens for window in range(6)]
    assert len({tuple(text) for text in texts}) == 6
    assert len({len(text) for text in texts}) > 2
    assert min(map(len, texts)) < 32


@pytest.mark.parametrize("size", [2, 3, 8])
def test_rows_join_and_leave_at_any_step(ending: Rig, size: int) -> None:
    wanted = [ending.alone(window, 0.7 * (window % 3 == 2), window, 1500 - 100 * window) for window in range(10)]
    slots, waiting, done = ending.slots(size), list(range(10)), dict[int, Trial]()
    step = 0
    while waiting or slots.live:
        # One at a time, every third step: rows are at different places, and freed ones idle for a while.
        if waiting and slots.free and (step % 3 == 0 or not slots.live):
            window = waiting.pop(0)
            trial = ending.trial(0.7 * (window % 3 == 2), window, 1500 - 100 * window)
            done[window] = ending.join(slots, window, trial)
        for trial in slots.step():
            slots.leave(trial)
        step += 1
    assert slots.free == size
    for window, trial in enumerate(wanted):
        same(done[window], trial)


def test_the_live_rows_move_together_when_most_have_left(rig: Rig) -> None:
    slots, rows = rig.slots(8), list[int]()
    trials = [rig.join(slots, window, rig.trial()) for window in range(8)]
    leavers = {10: [0, 3], 20: [1, 6, 7], 30: [4, 5]}
    for step in range(LONG + 2):
        for window in leavers.get(step, []):
            slots.leave(trials[window])
        slots.step()
        rows.append(len(slots._tokens))
    assert [rows[step] for step in (5, 15, 25, 35)] == [8, 8, 4, 1]
    same(trials[2], rig.alone(2))
    assert trials[5].tokens == rig.alone(5).tokens[: len(trials[5].tokens)]


def test_room_for_audio_goes_with_the_row_that_needed_it(rig: Rig) -> None:
    slots = rig.slots(4)
    windows = [100, 101, 0]
    trials = [rig.join(slots, window, rig.trial()) for window in windows]
    lengths = []
    for step in range(LONG + 2):
        if step == 10:
            slots.leave(trials[2])
        slots.step()
        lengths.append((slots._counts.shape[1], *{held.shape[2] for pair in slots._cross for held in pair}))
    assert (lengths[5], lengths[15]) == ((1500, 1500), (300, 300))
    for window, trial in zip(windows[:2], trials, strict=False):
        same(trial, rig.alone(window))


def test_the_cache_grows_under_rows_of_all_ages(rig: Rig) -> None:
    wanted = [rig.alone(window) for window in range(3)]
    slots, lengths = rig.slots(3), set[int]()
    trials = [rig.join(slots, 0, rig.trial())]
    finished: list[Trial] = []
    for step in range(LONG + 90):
        if step in (40, 80):
            trials.append(rig.join(slots, len(trials), rig.trial()))
        finished += slots.step()
        lengths.add(slots._length)
    assert lengths == {64, 128, 256}
    assert finished == trials
    for trial, alone in zip(trials, wanted, strict=True):
        same(trial, alone)


def test_a_late_joiner_comes_into_a_grown_cache(rig: Rig) -> None:
    wanted = rig.alone(5)
    slots = rig.slots(2)
    rig.join(slots, 4, rig.trial())
    for _ in range(140):
        slots.step()
    trial = rig.join(slots, 5, rig.trial())
    while not trial.finished:
        slots.step()
    same(trial, wanted)


def test_a_window_is_tried_again_at_another_temperature(ending: Rig) -> None:
    hot, cold = ending.alone(1, 0.8, 5), ending.alone(2)
    slots = ending.slots(2)
    first, neighbour = ending.join(slots, 1, ending.trial()), ending.join(slots, 2, ending.trial())
    while not first.finished:
        slots.step()
    again = ending.trial(0.8, 5)
    slots.restart(first, again)
    while not (again.finished and neighbour.finished):
        slots.step()
    same(first, ending.alone(1))
    same(again, hot)
    same(neighbour, cold)


def test_a_trial_that_is_abandoned_leaves_nothing_behind(ending: Rig) -> None:
    slots = ending.slots(1)
    first = ending.join(slots, 1, ending.trial(1.0, 9))
    for _ in range(4):
        slots.step()
    said = list(first.tokens)
    slots.leave(first)
    second = ending.join(slots, 3, ending.trial(0.7, 3))
    while not second.finished:
        slots.step()
    assert first.tokens == said
    same(second, ending.alone(3, 0.7, 3))


def test_samples_are_a_matter_of_seed_and_temperature(ending: Rig) -> None:
    again = ending.slots(1)
    trial = ending.join(again, 0, ending.trial(0.9, 1))
    while not trial.finished:
        again.step()
    texts = [ending.alone(0, t, seed).tokens for t, seed in [(0.9, 1), (0.9, 2), (0.5, 1)]]
    assert trial.tokens == texts[0]
    assert texts[0] != texts[1]
    assert texts[0] != texts[2]


def test_nan_ends_its_row_and_no_other(ending: Rig) -> None:
    slots = ending.slots(2)
    bad, good = ending.join(slots, NAN, ending.trial()), ending.join(slots, 2, ending.trial())
    while not good.finished:
        slots.step()
    assert bad.finished
    assert math.isnan(bad.logprob)
    assert bad.tokens == []
    same(good, ending.alone(2))


def test_nan_does_not_pass_to_the_next_window_in_its_slot(ending: Rig) -> None:
    slots = ending.slots(1)
    bad = ending.join(slots, NAN, ending.trial())
    while not bad.finished:
        slots.step()
    for _ in range(5):  # and it goes on writing while nobody looks
        slots.step()
    slots.leave(bad)
    good = ending.join(slots, 2, ending.trial())
    while not good.finished:
        slots.step()
    same(good, ending.alone(2))


def test_dead_rows_stay_inside_the_model_s_context(tmp_path: Path) -> None:
    rig = Rig(short_whisper(tmp_path / "narrow", n_text_ctx=40))
    rig.max_tokens = 20
    wanted = rig.alone(1)
    slots = rig.slots(2)
    for _ in range(4):  # one row sees four windows pass
        trial = rig.join(slots, 1, rig.trial())
        while not trial.finished:
            slots.step()
            assert max(slots._positions.tolist()) < 40
        slots.leave(trial)
        same(trial, wanted)
    assert slots._length == 40


# ---- prompts


@pytest.mark.parametrize(
    ("lengths", "context", "wanted"),
    [
        ([1], 448, 1),
        ([3, 3, 3], 448, 3),
        ([3, 4], 448, 64),
        ([3, 64], 448, 64),
        ([65, 3], 448, 128),
        ([227], 448, 256),
        ([23, 3], 40, 40),
    ],
)
def test_prompts_are_prefilled_at_few_lengths(lengths: list[int], context: int, wanted: int) -> None:
    assert prefill_length([[0] * length for length in lengths], context) == wanted


@pytest.mark.parametrize("padding", [0, 1, 40])
def test_what_pads_a_prompt_is_not_seen(ending: Rig, padding: int) -> None:
    sound, _ = ending.prefilled(2)
    cache, padded = PromptCache(), mx.array([ending.prompt + [ending.vocabulary.eot] * padding])
    ending.network.decoder(padded, mx.arange(padded.shape[1])[None], cache, sound.cross, sound.heard)
    slots, trial = ending.slots(2), ending.trial()
    slots.join(trial, sound, cache, 0)
    while not trial.finished:
        slots.step()
    same(trial, ending.alone(2))
    assert slots._length == 64


def test_a_text_at_its_limit_is_cut_and_one_that_ends_is_not(ending: Rig) -> None:
    whole = next(trial for window in range(6) if not (trial := ending.alone(window)).cut and len(trial.tokens) > 4)
    window = next(window for window in range(6) if ending.alone(window).tokens == whole.tokens)
    slots, trial = ending.slots(1), Trial(ending.prompt, 1500, len(whole.tokens) - 2)
    ending.join(slots, window, trial)
    while not trial.finished:
        slots.step()
    assert (trial.cut, trial.tokens) == (True, whole.tokens[:-2])
