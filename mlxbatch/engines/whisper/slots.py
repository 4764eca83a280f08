"""The decoder's slots: rows that join, step together and leave, each with a position, rules and cache of its own."""

from __future__ import annotations

from dataclasses import dataclass, field

import mlx.core as mx

from mlxbatch.engines.whisper.network import Decoder, KeysValues
from mlxbatch.engines.whisper.rules import Rules, RuleState, put

# Lengths of the self-attention cache, and the model's context last. Few shapes, so that MLX's buffer cache stays small;
# short texts pay for 64 only.
CACHE_LENGTHS = (64, 128, 256)


@dataclass
class Trial:
    """One attempt at decoding one window: where it starts, how it samples, what it has said so far."""

    prompt: list[int]
    end: int  # the last timestamp that the audio allows, in steps of 20 ms
    temperature: float = 0.0
    seed: int = 0
    tokens: list[int] = field(default_factory=list)
    logprob: float = 0.0
    drawn: int = 0  # samples drawn so far, which numbers the random keys
    finished: bool = False

    @property
    def avg_logprob(self) -> float:
        """Mean over the tokens and the end-of-text, natural logarithm (openai/whisper's `avg_logprob`)."""
        return self.logprob / (len(self.tokens) + 1)


class GrowingCache:
    """Keys and values of a prompt, built up by concatenation: used to prefill a row before it joins."""

    def __init__(self, layers: int) -> None:
        self.layers: list[KeysValues | None] = [None] * layers

    @property
    def length(self) -> int:
        first = self.layers[0]
        return 0 if first is None else first[0].shape[2]

    def append(self, layer: int, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array, mx.array]:
        held = self.layers[layer]
        if held is not None:
            keys, values = mx.concatenate([held[0], keys], axis=2), mx.concatenate([held[1], values], axis=2)
        self.layers[layer] = (keys, values)
        total, new = keys.shape[2], keys.shape[2] - (0 if held is None else held[0].shape[2])
        seen = mx.arange(total)[None, :] <= mx.arange(total - new, total)[:, None]
        return keys, values, seen


class Slots:
    """`size` rows on one decoder. All arrays have `size` rows always, dead ones included: shapes stay few."""

    def __init__(self, decoder: Decoder, rules: Rules, size: int, max_tokens: int) -> None:
        self.decoder, self.rules, self.size, self.max_tokens = decoder, rules, size, max_tokens
        self.trials: list[Trial | None] = [None] * size
        context = decoder.positional_embedding.shape[0]
        self._lengths = [*(n for n in CACHE_LENGTHS if n < context), context]
        self._cross: list[KeysValues] = []
        self._cache: list[KeysValues] = []
        self._tokens = mx.zeros((size,), mx.int32)
        self._positions = mx.zeros((size,), mx.int32)
        self._state = RuleState.start([0] * size)
        self._pending: tuple[mx.array, mx.array, list[Trial | None]] | None = None
        self._rows = mx.arange(size)
        self._visible: mx.array | None = None

    @property
    def free(self) -> list[int]:
        return [row for row, trial in enumerate(self.trials) if trial is None]

    @property
    def live(self) -> int:
        return self.size - len(self.free)

    def join(self, row: int, trial: Trial, cross: list[KeysValues], prompt: GrowingCache, index: int) -> None:
        """Put row `index` of a prefilled prompt and its audio's keys and values into a free slot.

        The whole row is written: a NaN that the slot's last window left behind would get through the mask (0 * NaN).
        """
        self._reserve(cross, prompt)
        unused = [(0, 0), (0, self._length - prompt.length), (0, 0)]
        for layer, (keys, values) in enumerate(cross):
            held_keys, held_values = self._cross[layer]
            held_keys[row], held_values[row] = keys[index], values[index]
        for layer, held in enumerate(prompt.layers):
            assert held is not None
            self_keys, self_values = self._cache[layer]
            self_keys[row], self_values[row] = mx.pad(held[0][index], unused), mx.pad(held[1][index], unused)
        self.restart(row, trial)

    def restart(self, row: int, trial: Trial) -> None:
        """Begin a trial in a slot whose audio and prompt are in place: how a window is tried at the next temperature.

        The prompt's last token is fed again, at its own place, and its logits are those of the first new token.
        """
        self.trials[row] = trial
        at = mx.array([row])
        self._tokens = put(self._tokens, at, mx.array([trial.prompt[-1]], mx.int32))
        self._positions = put(self._positions, at, mx.array([len(trial.prompt) - 1], mx.int32))
        self._state = self._state.put(at, RuleState.start([trial.end]))
        self._grow(max(len(t.prompt) + len(t.tokens) for t in self.trials if t is not None) + 2)

    def leave(self, row: int) -> None:
        self.trials[row] = None

    def step(self) -> list[int]:
        """Decode one token in every row; returns the rows that finished.

        The device works one step ahead: this call starts a step, then reads the one before, so that the host's
        bookkeeping costs the device nothing. A finished row is noticed one step late and that step's token dropped.
        """
        self._grow(max((len(t.prompt) + len(t.tokens) for t in self.trials if t is not None), default=0) + 2)
        started = self._start()
        finished = self._collect()
        self._pending = started
        return finished

    def _start(self) -> tuple[mx.array, mx.array, list[Trial | None]]:
        self._visible = (mx.arange(self._length)[None, :] <= self._positions[:, None])[:, None, None, :]
        hidden = self.decoder(self._tokens[:, None], self._positions[:, None], self, self._cross)
        logits = self.decoder.logits(hidden[:, 0])
        token, logprob = self.rules.choose(logits, self._state, self._noise(logits.shape[-1]))
        self._state = self._state.after(token, self.rules.timestamp_begin)
        self._tokens, self._positions = token, mx.minimum(self._positions + 1, self._length - 1)
        mx.async_eval(token, logprob)
        return token, logprob, list(self.trials)

    def _collect(self) -> list[int]:
        if self._pending is None:
            return []
        tokens, logprobs, trials = self._pending
        finished = []
        for row, (token, logprob) in enumerate(zip(tokens.tolist(), logprobs.tolist(), strict=True)):
            trial = trials[row]
            if trial is None or trial.finished or trial is not self.trials[row]:
                continue
            trial.logprob += logprob
            trial.finished = token == self.rules.eot or logprob != logprob
            if not trial.finished:
                trial.tokens.append(token)
                trial.finished = len(trial.tokens) >= self.max_tokens
            if trial.finished:
                finished.append(row)
        return finished

    def append(self, layer: int, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array, mx.array | None]:
        """One new key and value per row [size, heads, 1, d], written at each row's own position (SelfCache)."""
        held_keys, held_values = self._cache[layer]
        held_keys[self._rows, :, self._positions] = keys[:, :, 0]
        held_values[self._rows, :, self._positions] = values[:, :, 0]
        return held_keys, held_values, self._visible

    @property
    def _length(self) -> int:
        return self._cache[0][0].shape[2]

    def _reserve(self, cross: list[KeysValues], prompt: GrowingCache) -> None:
        if not self._cross:
            self._cross = [_zeros(self.size, pair, pair[0].shape[2]) for pair in cross]
        if not self._cache:
            length = next(n for n in self._lengths if n > prompt.length)
            self._cache = [_zeros(self.size, pair, length) for pair in prompt.layers if pair is not None]

    def _grow(self, length: int) -> None:
        if length <= self._length:
            return
        more = next((n for n in self._lengths if n >= length), self._lengths[-1]) - self._length
        width = [(0, 0), (0, 0), (0, more), (0, 0)]
        self._cache = [(mx.pad(keys, width), mx.pad(values, width)) for keys, values in self._cache]

    def _noise(self, n_vocab: int) -> mx.array | None:
        """Temperature times Gumbel noise [size, n_vocab]; None where every row is greedy.

        Each row draws from a key made of its own seed and position, never of its neighbours or its slot.
        """
        if all(trial is None or trial.temperature == 0 for trial in self.trials):
            return None
        return mx.stack([self._row_noise(trial, n_vocab) for trial in self.trials])

    def _row_noise(self, trial: Trial | None, n_vocab: int) -> mx.array:
        if trial is None or trial.temperature == 0:
            return mx.zeros((n_vocab,))
        trial.drawn += 1
        return trial.temperature * mx.random.gumbel((n_vocab,), key=mx.random.key(trial.seed + trial.drawn))


def _zeros(size: int, like: KeysValues, length: int) -> KeysValues:
    _, heads, _, d = like[0].shape
    shape = (size, heads, length, d)
    return mx.zeros(shape, like[0].dtype), mx.zeros(shape, like[0].dtype)
