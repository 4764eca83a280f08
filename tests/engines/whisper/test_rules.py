"""Which token may come next: against a plain reference, over random logits and long texts."""

from __future__ import annotations

import re

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mlxbatch.engines.whisper.rules import MAX_INITIAL_STAMP, Rules, RuleState, put
from tests.engines.whisper.parts import EOT, STAMP, small_vocabulary

N_STAMPS = 60
N_VOCAB = STAMP + N_STAMPS
Array = NDArray[np.float64]


def rules(n_vocab: int = N_VOCAB, suppressed: tuple[int, ...] = ()) -> Rules:
    return Rules(small_vocabulary(suppressed), n_vocab)


def log_softmax(logits: Array) -> Array:
    top = logits.max()
    return np.asarray(logits - top - np.log(np.exp(logits - top).sum()))


def permitted(n_vocab: int, tokens: list[int], end: int, suppressed: tuple[int, ...] = ()) -> NDArray[np.bool_]:
    """What openai/whisper's ApplyTimestampRules and SuppressTokens leave, one row, token by token, before they force.

    With our own rules in the last block: no special but the end of text, no timestamp past the audio, room for a
    closing timestamp behind an opening one.
    """
    allowed = np.ones(n_vocab, np.bool_)
    allowed[list(suppressed)] = False
    stamps = [token for token in tokens if token >= STAMP]
    last_was_stamp = len(tokens) >= 1 and tokens[-1] >= STAMP
    before_was_stamp = len(tokens) < 2 or tokens[-2] >= STAMP
    if last_was_stamp and before_was_stamp:
        allowed[STAMP:] = False
    elif last_was_stamp:
        allowed[:EOT] = False
    if stamps:
        closed = last_was_stamp and not before_was_stamp
        allowed[STAMP : stamps[-1] + (0 if closed else 1)] = False
    if not tokens:
        allowed[:STAMP] = False
        allowed[STAMP + MAX_INITIAL_STAMP + 1 :] = False

    allowed[EOT + 1 : STAMP] = False
    allowed[STAMP + end + 1 :] = False
    if last_was_stamp and not before_was_stamp:
        allowed[STAMP + end :] = False
    return allowed


def reference(raw: NDArray[np.float32], tokens: list[int], end: int, suppressed: tuple[int, ...] = ()) -> Array:
    """Log-probabilities of what is permitted, a timestamp forced where together they outweigh any word."""
    logits = np.where(permitted(len(raw), tokens, end, suppressed), raw.astype(np.float64), -np.inf)
    scores = log_softmax(logits)
    if np.logaddexp.reduce(scores[STAMP:]) > scores[:STAMP].max():
        logits[:STAMP] = -np.inf
    return log_softmax(logits)


def state_after(tokens: list[int], end: int) -> RuleState:
    state = RuleState.start([end])
    for token in tokens:
        state = state.after(mx.array([token], mx.int32), STAMP)
    return state


def choose(raw: NDArray[np.float32], tokens: list[int], end: int, **more: tuple[int, ...]) -> tuple[int, float]:
    token, logprob = rules(len(raw), **more).choose(mx.array(raw)[None], state_after(tokens, end))
    return token.item(), logprob.item()


def flat(**raised: float) -> NDArray[np.float32]:
    """Logits of 0, and others where named: `t5` a word, `eot`, `s7` the timestamp 7."""
    logits = np.zeros(N_VOCAB, np.float32)
    for name, value in raised.items():
        index = EOT if name == "eot" else int(name[1:]) + (STAMP if name[0] == "s" else 0)
        logits[index] = value
    return logits


# ---- properties


@given(
    seed=st.integers(0, 2**32 - 1),
    ends=st.lists(st.integers(0, N_STAMPS - 1), min_size=3, max_size=3),
    scale=st.sampled_from([0.3, 3.0, 30.0]),
    stamp_bias=st.sampled_from([-6.0, 0.0, 3.0]),
    noisy=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_any_text_keeps_the_rules(seed: int, ends: list[int], scale: float, stamp_bias: float, noisy: bool) -> None:
    rng = np.random.default_rng(seed)
    suppressed = (3, 7)
    chooser, state = rules(suppressed=suppressed), RuleState.start(ends)
    texts: list[list[int]] = [[] for _ in ends]
    for _ in range(40):
        raw = (scale * rng.standard_normal((len(ends), N_VOCAB))).astype(np.float32)
        raw[:, STAMP:] += stamp_bias
        gumbel = 0.7 * rng.gumbel(size=raw.shape).astype(np.float32)
        tokens, logprobs = chooser.choose(mx.array(raw), state, mx.array(gumbel) if noisy else None)
        state = state.after(tokens, STAMP)
        for row, (token, logprob) in enumerate(zip(tokens.tolist(), logprobs.tolist(), strict=True)):
            if EOT in texts[row]:
                continue  # as in the slots: the row goes on, and nobody looks
            wanted = reference(raw[row], texts[row], ends[row], suppressed)
            scores = np.where(np.isfinite(wanted), raw[row], -np.inf) + (gumbel[row] if noisy else 0)
            assert token == np.argmax(scores)
            assert logprob == pytest.approx(wanted[token], abs=1e-4)
            texts[row].append(token)
    for text, end in zip(texts, ends, strict=True):
        check_text(text, end)


def check_text(tokens: list[int], end: int) -> None:
    kinds = "".join("S" if token >= STAMP else "E" if token == EOT else "T" for token in tokens)
    assert re.fullmatch(r"(ST+S)*(ST*)?E?", kinds), kinds
    stamps = [token - STAMP for token in tokens if token >= STAMP]
    if not tokens:
        return
    assert stamps[0] <= min(end, MAX_INITIAL_STAMP)
    assert stamps == sorted(stamps)
    assert stamps[-1] <= end
    assert all(start < stop for start, stop in zip(stamps[::2], stamps[1::2], strict=False))
    assert not any(EOT < token < STAMP for token in tokens)


# Every size that float32 has, and so many of each that whole kinds of tokens are often out of reach.
HOSTILE = (-np.inf, -np.inf, -3.4e38, -1e30, -1.0, 0.0, 1.0, 1e30, 3.4e38)


@given(
    seed=st.integers(0, 2**32 - 1),
    ends=st.lists(st.integers(0, N_STAMPS - 1), min_size=4, max_size=4),
    sizes=st.lists(st.sampled_from(HOSTILE), min_size=3, max_size=3),
    noisy=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_hostile_logits_leave_a_choice_or_an_error(seed: int, ends: list[int], sizes: list[float], noisy: bool) -> None:
    """Words, end of text and timestamps are of one size each, but for some tokens of any."""
    dice = np.random.default_rng(seed)
    chooser, state = rules(suppressed=(3, 7)), RuleState.start(ends)
    texts: list[list[int]] = [[] for _ in ends]
    over = [False] * len(ends)
    for _ in range(12):
        raw = np.repeat(np.float32(sizes), (EOT, STAMP - EOT, N_STAMPS))[None].repeat(len(ends), axis=0)
        odd = dice.random(raw.shape) < 0.1
        raw[odd] = dice.choice(np.float32(HOSTILE), odd.sum())
        gumbel = mx.array(dice.gumbel(size=raw.shape).astype(np.float32)) if noisy else None
        tokens, logprobs = chooser.choose(mx.array(raw), state, gumbel)
        state = state.after(tokens, STAMP)
        for row, (token, logprob) in enumerate(zip(tokens.tolist(), logprobs.tolist(), strict=True)):
            if over[row]:
                continue
            possible = permitted(N_VOCAB, texts[row], ends[row], (3, 7)) & (raw[row] > -np.inf)
            if possible.any():
                assert possible[token]
                assert np.isfinite(logprob)
                assert logprob < 1e-5
                texts[row].append(token)
            else:
                assert np.isnan(logprob)
            over[row] = token == EOT or not possible.any()
    for text, end in zip(texts, ends, strict=True):
        check_text(text, end)


@given(
    seed=st.integers(0, 2**32 - 1),
    said=st.sampled_from(
        [[], [STAMP], [STAMP, 4], [STAMP, 4, 5], [STAMP, 4, STAMP + 9], [STAMP, 4, STAMP + 9, STAMP + 9]]
    ),
    end=st.integers(20, N_STAMPS - 1),
)
@settings(max_examples=40, deadline=None)
def test_nan_is_an_error_where_it_could_be_chosen_and_unseen_elsewhere(seed: int, said: list[int], end: int) -> None:
    dice = np.random.default_rng(seed)
    raw = dice.standard_normal(N_VOCAB).astype(np.float32)
    at = dice.choice(N_VOCAB)
    poisoned = raw.copy()
    poisoned[at] = np.nan
    found = choose(poisoned, said, end)
    if permitted(N_VOCAB, said, end)[at]:
        assert np.isnan(found[1])
    else:
        assert found == choose(raw, said, end)


@given(seed=st.integers(0, 2**32 - 1), end=st.integers(0, 1500))
@settings(max_examples=10, deadline=None)
def test_the_full_range_of_timestamps(seed: int, end: int) -> None:
    rng = np.random.default_rng(seed)
    chooser, state, tokens = rules(STAMP + 1501), RuleState.start([end]), list[int]()
    for _ in range(60):
        raw = rng.standard_normal((1, STAMP + 1501)).astype(np.float32)
        raw[:, STAMP:] -= 8 * (len(tokens) % 4 != 0)
        token, logprob = chooser.choose(mx.array(raw), state)
        state = state.after(token, STAMP)
        assert np.isfinite(logprob.item())
        tokens.append(token.item())
        if token.item() == EOT:
            break
    check_text(tokens, end)


# ---- each rule by hand


def test_the_first_token_is_a_timestamp_in_the_first_second() -> None:
    assert choose(flat(t1=50, eot=60, s55=40, s12=1), [], 59)[0] == STAMP + 12
    assert choose(flat(s50=1), [], 59)[0] == STAMP + 50
    assert choose(flat(s9=9, s51=50), [], 59)[0] == STAMP + 9


def test_the_first_token_lies_in_the_audio() -> None:
    assert choose(flat(s9=9, s2=5), [], 3)[0] == STAMP + 2
    token, logprob = choose(flat(s9=9), [], 0)
    assert (token, logprob) == (STAMP, 0.0)


def test_text_follows_an_opening_timestamp() -> None:
    assert choose(flat(s9=99, t4=1), [STAMP + 2], 59)[0] == 4


def test_the_text_may_end_right_behind_an_opening_timestamp() -> None:
    assert choose(flat(s9=99, eot=1), [STAMP + 2], 59)[0] == EOT


def test_no_text_follows_a_closing_timestamp() -> None:
    tokens = [STAMP, 4, STAMP + 5]
    assert choose(flat(t4=99, s6=2, eot=1), tokens, 59)[0] == STAMP + 6
    assert choose(flat(t4=99, s6=-99, eot=9), tokens, 59)[0] == EOT


def test_the_next_text_may_open_where_the_last_closed_but_not_before() -> None:
    tokens = [STAMP, 4, STAMP + 5]
    assert choose(flat(s5=9, s4=99), tokens, 59)[0] == STAMP + 5


def test_a_text_closes_after_it_opened() -> None:
    assert choose(flat(s5=99, s6=9), [STAMP + 5, 4], 59)[0] == STAMP + 6


def test_a_text_that_opened_with_the_audio_s_end_cannot_close() -> None:
    assert choose(flat(s5=99, s6=99, t4=1), [STAMP + 5, 4], 5)[0] == 4


def test_an_opening_timestamp_leaves_room_to_close() -> None:
    tokens = [STAMP, 4, STAMP + 5]
    assert choose(flat(s8=99, s7=9), tokens, 8)[0] == STAMP + 7
    assert choose(flat(s8=99), [STAMP, 4, STAMP + 8], 8) == (EOT, 0.0)


def test_specials_and_suppressed_words_are_never_chosen() -> None:
    logits = flat(t4=99, t5=1)
    logits[EOT + 1 : STAMP] = 99
    token, logprob = choose(logits, [STAMP], 59, suppressed=(4,))
    assert token == 5
    assert logprob == pytest.approx(reference(logits, [STAMP], 59, (4,))[5], abs=1e-6)


def test_many_small_timestamps_outweigh_the_best_word() -> None:
    tokens = [STAMP, 4]
    logits = flat(t4=2.0)  # 59 timestamps of weight 1 against e^2 = 7.4
    token, logprob = choose(logits, tokens, 59)
    assert token == STAMP + 1
    assert logprob == pytest.approx(-np.log(59), abs=1e-5)
    assert choose(flat(t4=4.2), tokens, 59)[0] == 4  # e^4.2 = 66.7


def test_the_end_of_text_counts_as_text_in_that() -> None:
    assert choose(flat(eot=4.2), [STAMP, 4], 59)[0] == EOT
    assert choose(flat(eot=2.0), [STAMP, 4], 59)[0] == STAMP + 1


def test_only_allowed_timestamps_weigh() -> None:
    """openai/whisper weighs after masking, mlx-audio before: there these would force a timestamp."""
    logits = flat(t4=2.0)
    logits[STAMP : STAMP + 58] = 9.0  # all of them before the last one
    token, logprob = choose(logits, [STAMP + 57, 4], 59)
    assert token == 4
    assert logprob == pytest.approx(reference(logits, [STAMP + 57, 4], 59)[4], abs=1e-5)


def test_with_a_forced_timestamp_the_words_do_not_share_the_probability() -> None:
    logits = flat(t4=5.0, s9=8.0)
    token, logprob = choose(logits, [STAMP, 4], 59)
    assert token == STAMP + 9
    assert logprob == pytest.approx(8.0 - np.logaddexp.reduce(logits[STAMP + 1 :]), abs=1e-5)


def test_huge_logits_keep_finite_probabilities() -> None:
    logits = flat(t4=1e30, t5=-1e30, s5=-1e30)
    token, logprob = choose(logits, [STAMP], 59)
    assert (token, logprob) == (4, 0.0)


def test_only_the_last_allowed_token_counts_however_unlikely() -> None:
    nothing = np.full(N_VOCAB, -np.inf, np.float32)
    for tokens, place in (([], STAMP + 3), ([STAMP], 4), ([STAMP, 4], STAMP + 9), ([STAMP, 4, STAMP + 59], EOT)):
        logits = nothing.copy()
        logits[place] = -3e38
        assert choose(logits, tokens, 59) == (place, 0.0)


@pytest.mark.parametrize("tokens", [[], [STAMP], [STAMP, 4], [STAMP, 4, STAMP + 59]])
def test_where_all_that_is_allowed_is_impossible_no_other_word_passes_for_certain(tokens: list[int]) -> None:
    """It was "!", the token 0, with a log-probability of +inf, which no threshold finds too low."""
    allowed = permitted(N_VOCAB, tokens, 59)
    assert np.isnan(choose(np.where(allowed, -np.inf, 5).astype(np.float32), tokens, 59)[1])
    assert np.isnan(choose(np.where(allowed, np.inf, 5).astype(np.float32), tokens, 59)[1])


# ---- NaN


@pytest.mark.parametrize("tokens", [[], [STAMP], [STAMP, 4], [STAMP, 4, STAMP + 5]])
def test_nan_stays_in_its_row(tokens: list[int]) -> None:
    logits = np.stack([flat(t4=3), np.full(N_VOCAB, np.nan, np.float32), flat(s5=3)])
    one = state_after(tokens, 59)
    names = ("count", "last_stamped", "before_stamped", "stamp", "end")
    state = RuleState(**{name: mx.repeat(getattr(one, name), 3) for name in names})
    found = rules().choose(mx.array(logits), state)[1].tolist()
    assert np.isnan(found).tolist() == [False, True, False]
    assert found[0] == pytest.approx(choose(logits[0], tokens, 59)[1], abs=1e-6)


def test_one_nan_among_the_words_is_enough() -> None:
    assert np.isnan(choose(flat(t4=float("nan"), t5=9), [STAMP], 59)[1])
    assert np.isnan(choose(flat(s9=float("nan"), s5=9), [STAMP, 4], 59)[1])


# ---- sampling


def gumbel(seed: int, rows: int) -> mx.array:
    return mx.random.gumbel((rows, N_VOCAB), key=mx.random.key(seed))


def test_the_same_noise_makes_the_same_choice() -> None:
    logits, state = mx.array(flat())[None], state_after([STAMP], 59)
    picked = [rules().choose(logits, state, gumbel(seed, 1))[0].item() for seed in (1, 1, 2, 3, 4, 5)]
    assert picked[0] == picked[1]
    assert len(set(picked)) > 1


@pytest.mark.parametrize("temperature", [0.4, 1.0])
def test_samples_are_distributed_as_the_softmax_at_that_temperature(temperature: float) -> None:
    rows = 4000
    logits = flat(eot=-0.5) + np.linspace(-1, 1, N_VOCAB, dtype=np.float32)
    one = state_after([STAMP], 59)
    names = ("count", "last_stamped", "before_stamped", "stamp", "end")
    state = RuleState(**{name: mx.repeat(getattr(one, name), rows) for name in names})
    batch = mx.broadcast_to(mx.array(logits), (rows, N_VOCAB))
    tokens, logprobs = rules().choose(batch, state, temperature * gumbel(7, rows))
    counts = np.bincount(np.array(tokens), minlength=N_VOCAB)
    assert counts[EOT + 1 :].sum() == 0
    expected = rows * np.exp(log_softmax(logits[: EOT + 1].astype(np.float64) / temperature))
    chi_square = ((counts[: EOT + 1] - expected) ** 2 / expected).sum()
    assert chi_square < 35  # 12 degrees of freedom: p = 0.0005
    # The log-probability is the model's own, not that of the flattened distribution.
    own = log_softmax(logits[: EOT + 1].astype(np.float64))
    assert np.allclose(np.array(logprobs), own[np.array(tokens)], atol=1e-5)


# ---- the state of many rows


def test_rows_are_replaced_one_by_one() -> None:
    state = RuleState.start([10, 20, 30]).after(mx.array([STAMP + 1, STAMP + 2, STAMP + 3]), STAMP)
    renewed = state.put(mx.array([1]), RuleState.start([59]))
    assert renewed.end.tolist() == [10, 59, 30]
    assert renewed.count.tolist() == [1, 0, 1]
    assert renewed.stamp.tolist() == [1, -1, 3]
    assert state.end.tolist() == [10, 20, 30]


def test_put_leaves_the_array_that_others_hold() -> None:
    array = mx.array([1, 2, 3])
    assert put(array, mx.array([1]), mx.array([9])).tolist() == [1, 9, 3]
    assert array.tolist() == [1, 2, 3]
