"""Greedy decoding of a batch: rows of any length share each step, and say what they would say alone."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx

# Prompt positions that go through the language model at once: bounds what attention takes.
PREFILL = 2048
# Tokens that a piece may have whatever its length; beyond that so many for each of its seconds. Fast speech has 5 to 6
# tokens in a second; a text that is longer is a loop, which would go on to the model's limit.
LEAST_TOKENS, TOKENS_PER_SECOND = 64, 16

Step = Callable[[mx.array], mx.array]
"""Tokens [n] -> float logits [n, vocabulary] of what follows them."""


@dataclass
class Row:
    """What one row has said. `logprob` is the sum over its tokens, NaN where the model's numbers were none.

    `cut`: it came to its limit before a stop token, so what follows may be missing.
    """

    limit: int
    tokens: list[int] = field(default_factory=list)
    logprob: float = 0.0
    done: bool = False
    cut: bool = False

    @property
    def broken(self) -> bool:
        return math.isnan(self.logprob)

    @property
    def avg_logprob(self) -> float:
        return self.logprob / len(self.tokens) if self.tokens else 0.0

    def take(self, token: int, logprob: float, stop: Collection[int]) -> None:
        if self.done:
            return
        self.logprob += logprob
        if token not in stop:
            self.tokens.append(token)
        self.cut = token not in stop and len(self.tokens) >= self.limit
        self.done = token in stop or self.broken or self.cut


def token_limit(seconds: float, wanted: int | None, most: int) -> int:
    """How many tokens a piece of that length may have: as asked for, as its length allows, as the model can."""
    bound = min(most, LEAST_TOKENS + math.ceil(TOKENS_PER_SECOND * seconds))
    return max(1, bound if wanted is None else min(bound, wanted))


def follow(
    logits: mx.array, step: Step, stop: Collection[int], limits: Sequence[int], tick: Callable[[], None]
) -> list[Row]:
    """What each row says, whole: see `following`."""
    (rows,) = deque(following(logits, step, stop, limits, tick), maxlen=1)
    return rows


def following(
    logits: mx.array, step: Step, stop: Collection[int], limits: Sequence[int], tick: Callable[[], None]
) -> Iterator[list[Row]]:
    """The most likely token of each row, step by step, until a stop token or the row's limit: the rows after each.

    `logits` [n, vocabulary] follow the prompts. The device is given the next step before this one is read. `tick` is
    called at each.
    """
    rows = [Row(limit) for limit in limits]
    tokens, logprobs = _best(logits)
    for _ in range(max(limits)):
        ahead = _best(step(tokens))
        mx.async_eval(*ahead)
        tick()
        for row, token, logprob in zip(rows, tokens.tolist(), logprobs.tolist(), strict=True):
            row.take(token, logprob, stop)
        yield rows
        if all(row.done for row in rows):
            return
        tokens, logprobs = ahead


def _best(logits: mx.array) -> tuple[mx.array, mx.array]:
    """The most likely tokens [n] and their log-probabilities; NaN among a row's logits makes that row's NaN."""
    logits = logits.astype(mx.float32)
    tokens = mx.argmax(logits, axis=-1)
    logprobs = mx.take_along_axis(logits, tokens[:, None], axis=-1)[:, 0] - mx.logsumexp(logits, axis=-1)
    broken = mx.isnan(logits).any(axis=-1)
    return tokens, mx.where(broken, mx.nan, logprobs)


class LanguageModel:
    """A decoder of mlx-audio over prompts of different lengths: shorter ones are padded on the left, and masked.

    `body(embeddings, caches)` -> hidden states [n, length, width] of its `layers`; `head` makes them logits; `embed`
    gives the embeddings of tokens. Each row's positions count from its own first token.
    """

    def __init__(
        self,
        body: Callable[[mx.array, list[Any]], mx.array],
        head: Callable[[mx.array], mx.array],
        embed: Callable[[mx.array], mx.array],
        layers: int,
    ) -> None:
        self._body, self._head, self._embed, self._layers = body, head, embed, layers

    def answer(
        self, prompts: Sequence[mx.array], stop: Collection[int], limits: Sequence[int], tick: Callable[[], None]
    ) -> list[Row]:
        """What follows each prompt, given as embeddings [length, width]."""
        (rows,) = deque(self.answering(prompts, stop, limits, tick), maxlen=1)
        return rows

    def answering(
        self, prompts: Sequence[mx.array], stop: Collection[int], limits: Sequence[int], tick: Callable[[], None]
    ) -> Iterator[list[Row]]:
        """The same after each token."""
        from mlx_audio.lm.models.cache import BatchKVCache

        longest = max(len(prompt) for prompt in prompts)
        padding = [longest - len(prompt) for prompt in prompts]
        caches = [BatchKVCache(padding) for _ in range(self._layers)]
        padded = mx.stack([mx.pad(prompt, ((left, 0), (0, 0))) for prompt, left in zip(prompts, padding, strict=True)])
        for start in range(0, longest, PREFILL):
            hidden = self._body(padded[:, start : start + PREFILL], caches)
            mx.eval(hidden, [cache.state for cache in caches])
            tick()

        def step(tokens: mx.array) -> mx.array:
            return self._head(self._body(self._embed(tokens[:, None]), caches)[:, -1])

        yield from following(self._head(hidden[:, -1]), step, stop, limits, tick)
