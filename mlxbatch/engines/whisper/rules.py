"""Which token may come next, and which does: Whisper's timestamp rules as MLX operations over a batch.

openai/whisper `ApplyTimestampRules`, with three differences. Time is compared by value, so that it never runs
backwards; a timestamp never lies past the end of the audio; "is it time for a timestamp" is judged on what is allowed,
not on raw logits, so that no row can be left with nothing to choose.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import mlx.core as mx
import numpy as np

from mlxbatch.engines.whisper.tokens import Vocabulary
from mlxbatch.engines.whisper.windows import SECONDS_PER_STAMP, WINDOW_STAMPS
from mlxbatch.kernels import logsumexp

# The first timestamp lies in the window's first second (openai/whisper `max_initial_timestamp`).
MAX_INITIAL_STAMP = round(1.0 / SECONDS_PER_STAMP)
N_STAMPS = WINDOW_STAMPS + 1


@dataclass(frozen=True)
class RuleState:
    """What the rules remember of each row, shape [n] each.

    `count` tokens sampled so far; `last_stamped` and `before_stamped`: whether the last token and the one before were
    timestamps (both True before the first); `stamp` the latest timestamp, in steps of 20 ms (-1: none yet); `end` the
    latest that the audio allows.
    """

    count: mx.array
    last_stamped: mx.array
    before_stamped: mx.array
    stamp: mx.array
    end: mx.array

    @classmethod
    def start(cls, ends: list[int]) -> RuleState:
        n = len(ends)
        yes = mx.ones((n,), mx.bool_)
        return cls(mx.zeros((n,), mx.int32), yes, yes, mx.full((n,), -1, mx.int32), mx.array(ends, mx.int32))

    def put(self, rows: mx.array, other: RuleState) -> RuleState:
        """This state with `other`'s rows at the places `rows`."""
        return replace(self, **{name: put(getattr(self, name), rows, getattr(other, name)) for name in _NAMES})

    def take(self, rows: mx.array) -> RuleState:
        """These rows only, in this order."""
        return replace(self, **{name: getattr(self, name)[rows] for name in _NAMES})

    def padded(self, more: int) -> RuleState:
        """This state and `more` rows that nobody looks at."""
        return replace(self, **{name: mx.pad(getattr(self, name), (0, more)) for name in _NAMES})

    def after(self, tokens: mx.array, timestamp_begin: int) -> RuleState:
        """The state once these tokens [n] were chosen."""
        stamped = tokens >= timestamp_begin
        return replace(
            self,
            count=self.count + 1,
            last_stamped=stamped,
            before_stamped=self.last_stamped,
            stamp=mx.where(stamped, tokens - timestamp_begin, self.stamp),
        )


_NAMES = ("count", "last_stamped", "before_stamped", "stamp", "end")


def put(array: mx.array, rows: mx.array, values: mx.array) -> mx.array:
    """A copy of `array` with `values` at `rows`: assignment in place would reach whoever else holds the array."""
    array = mx.array(array)
    array[rows] = values
    return array


class Rules:
    """Chooses tokens for a vocabulary."""

    def __init__(self, vocabulary: Vocabulary, n_vocab: int) -> None:
        self.eot = vocabulary.eot
        self.timestamp_begin = vocabulary.timestamp_begin
        self.n_stamps = min(N_STAMPS, n_vocab - vocabulary.timestamp_begin)
        blocked = np.zeros(vocabulary.eot, np.float32)
        blocked[list(vocabulary.suppressed)] = -np.inf
        self._blocked = mx.array(blocked)
        self._steps = mx.arange(self.n_stamps)[None, :]

    def choose(self, logits: mx.array, state: RuleState, noise: mx.array | None = None) -> tuple[mx.array, mx.array]:
        """The next token of each row and its log-probability among what is allowed, [n] each.

        logits float32 [n, n_vocab]; `noise` [n, n_vocab], temperature times Gumbel noise, makes the choice a sample
        (argmax(logits + T g) is distributed as softmax(logits / T)). Specials other than end-of-text are never
        chosen. A row has a NaN log-probability, and a token that means nothing, where what is allowed has a NaN among
        its logits or is all -inf.
        """
        words = logits[:, : self.eot] + self._blocked
        word = mx.argmax(words, axis=-1)
        end = logits[:, self.eot]
        stamps = mx.where(self._stamps_allowed(state), self._stamp_part(logits), -mx.inf)
        words_allowed, end_allowed = _text_allowed(state)
        top = _at(words, word)
        end = _gate(end_allowed, end)
        stamps_mass = logsumexp(stamps)
        must_stamp = stamps_mass > mx.maximum(_gate(words_allowed, top), end)
        words_mass = _gate(words_allowed & ~must_stamp, logsumexp(words, top))
        end_mass = _gate(~must_stamp, end)
        total = mx.logaddexp(mx.logaddexp(words_mass, end_mass), stamps_mass)
        token, logit = self._best(words, word, end_mass, stamps, words_allowed & ~must_stamp, noise)
        return token, logit - total

    def _stamp_part(self, x: mx.array) -> mx.array:
        return x[:, self.timestamp_begin : self.timestamp_begin + self.n_stamps]

    def _stamps_allowed(self, state: RuleState) -> mx.array:
        """Boolean [n, n_stamps]."""
        first = state.count == 0
        opening = state.last_stamped & ~state.before_stamped  # a segment was just closed: the next may open there
        low = mx.where(opening, state.stamp, state.stamp + 1)
        high = mx.where(first, mx.minimum(state.end, MAX_INITIAL_STAMP), mx.where(opening, state.end - 1, state.end))
        just_opened = state.last_stamped & state.before_stamped & ~first
        high = mx.where(just_opened, -1, high)
        return (self._steps >= low[:, None]) & (self._steps <= high[:, None])

    def _best(
        self,
        words: mx.array,
        word: mx.array,
        end: mx.array,
        stamps: mx.array,
        words_allowed: mx.array,
        noise: mx.array | None,
    ) -> tuple[mx.array, mx.array]:
        """The best token of each row and its logit without the noise; `word` is the best word without it."""
        noisy_words, noisy_end, noisy_stamps = words, end, stamps
        if noise is not None:
            noisy_words = words + noise[:, : self.eot]
            word = mx.argmax(noisy_words, axis=-1)
            noisy_end = end + noise[:, self.eot]
            noisy_stamps = stamps + self._stamp_part(noise)
        stamp = mx.argmax(noisy_stamps, axis=-1)
        values = mx.stack([_gate(words_allowed, _at(noisy_words, word)), noisy_end, _at(noisy_stamps, stamp)], axis=-1)
        # Gated as well: where all that is allowed is -inf, a word that is not must not pass for certain (x + inf).
        logits = mx.stack([_gate(words_allowed, _at(words, word)), end, _at(stamps, stamp)], axis=-1)
        tokens = mx.stack([word, mx.full(word.shape, self.eot), self.timestamp_begin + stamp], axis=-1)
        kind = mx.argmax(values, axis=-1)
        return _at(tokens, kind).astype(mx.int32), _at(logits, kind)


def _text_allowed(state: RuleState) -> tuple[mx.array, mx.array]:
    """Whether words, and whether the end of the text, may come next: boolean [n] each."""
    first = state.count == 0
    closed = state.last_stamped & ~state.before_stamped  # after a closing timestamp: another timestamp or the end
    return ~first & ~closed, ~first


def _gate(allowed: mx.array, values: mx.array) -> mx.array:
    return mx.where(allowed, values, -mx.inf)


def _at(values: mx.array, index: mx.array) -> mx.array:
    return mx.take_along_axis(values, index[:, None], axis=-1)[:, 0]
