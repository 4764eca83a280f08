"""The decoder's slots: rows that join, step together and leave, each with a position, rules and cache of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlxbatch.engines.whisper.heads import Head
from mlxbatch.engines.whisper.layout import BARE, CACHE_LENGTHS
from mlxbatch.engines.whisper.network import Decoder, KeysValues
from mlxbatch.engines.whisper.queries import KeptQueries
from mlxbatch.engines.whisper.rules import Rules, RuleState, put


@dataclass(eq=False)
class Trial:
    """One attempt at decoding one window: where it starts, how it samples, what it has said so far."""

    prompt: list[int]
    end: int  # the last timestamp that the audio allows, in steps of 20 ms
    limit: int  # tokens it may say
    temperature: float = 0.0
    seed: int = 0
    words: bool = False  # whether it is to be known when each token is said
    tokens: list[int] = field(default_factory=list)
    logprob: float = 0.0
    logprobs: list[float] = field(default_factory=list)  # of each token
    audio: int = 0  # positions of encoded audio, set when it joins
    drawn: int = 0  # samples drawn so far, which numbers the random keys
    finished: bool = False
    cut: bool = False  # finished because of the limit

    @property
    def avg_logprob(self) -> float:
        """Mean over the tokens and the end-of-text, natural logarithm (openai/whisper's `avg_logprob`)."""
        return self.logprob / (len(self.tokens) + 1)


@dataclass(frozen=True)
class Sound:
    """What the decoder hears of some windows: keys and values by layer [n, heads, s, d].

    `counts` [n, s] is what each position counts for, as the encoder says; -inf behind a window's last. `lengths` are
    how many positions each has.
    """

    cross: list[KeysValues]
    counts: mx.array
    lengths: tuple[int, ...]

    @classmethod
    def of(cls, cross: list[KeysValues], counts: mx.array) -> Sound:
        """Of windows that count alike, `counts` [s]."""
        n = cross[0][0].shape[0]
        return cls(cross, mx.broadcast_to(counts, (n, len(counts))), (len(counts),) * n)

    @classmethod
    def together(cls, sounds: Sequence[Sound]) -> Sound:
        """Several as one."""
        if len(sounds) == 1:
            return sounds[0]
        longest = max(sound.counts.shape[1] for sound in sounds)
        layers = zip(*(sound._as_long_as(longest) for sound in sounds), strict=True)
        cross = [(mx.concatenate([k for k, _ in layer]), mx.concatenate([v for _, v in layer])) for layer in layers]
        counts = [_behind(sound.counts, longest) for sound in sounds]
        return cls(cross, mx.concatenate(counts), tuple(length for sound in sounds for length in sound.lengths))

    def _as_long_as(self, length: int) -> list[KeysValues]:
        return [_padded(pair, 0, length) for pair in self.cross]

    def rows(self, first: int, end: int) -> Sound:
        cross = [(keys[first:end], values[first:end]) for keys, values in self.cross]
        return Sound(cross, self.counts[first:end], self.lengths[first:end])

    @property
    def heard(self) -> mx.array:
        """As the decoder takes it, [n, 1, 1, s]."""
        return self.counts[:, None, None]


class PromptCache:
    """Keys and values of prompts that are prefilled before their rows join (SelfCache): one call, from the start."""

    def __init__(self) -> None:
        self.layers: list[KeysValues] = []

    def append(self, layer: int, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array, mx.array]:
        assert layer == len(self.layers)
        self.layers.append((keys, values))
        places = mx.arange(keys.shape[2])
        return keys, values, (places[None, :] <= places[:, None])[None, None]


def prefill_length(prompts: Sequence[Sequence[int]], context: int) -> int:
    """To how many tokens prompts are padded to be prefilled at once: as they are where none has text before it."""
    longest = max(len(prompt) for prompt in prompts)
    return longest if longest <= BARE else min(next(n for n in (*CACHE_LENGTHS, context) if n >= longest), context)


class Slots:
    """At most `size` rows on one decoder.

    Arrays have as many rows as the live ones need, rounded up to a power of two, and are as long as the longest text
    and the longest audio need, each rounded up to a bucket: shapes stay few, and a last window does not pay for eight.
    """

    def __init__(self, decoder: Decoder, rules: Rules, size: int, heads: Sequence[Head] = ()) -> None:
        """`heads`: those whose attention says when a word is said, where any trial is to be asked that."""
        self.decoder, self.rules, self.size = decoder, rules, size
        self._queries = KeptQueries(heads)
        context = decoder.positional_embedding.shape[0]
        self._lengths = [*(n for n in CACHE_LENGTHS if n < context), context]
        self._trials: list[Trial | None] = []
        self._cross: list[KeysValues] = []
        self._counts = mx.zeros((0, 0))  # what each row's positions of audio count for, -inf behind them
        self._cache: list[KeysValues] = []
        self._tokens = mx.zeros((0,), mx.int32)
        self._positions = mx.zeros((0,), mx.int32)
        self._state = RuleState.start([])
        self._pending: tuple[mx.array, mx.array, list[Trial | None]] | None = None
        self._visible: mx.array | None = None

    @property
    def live(self) -> list[Trial]:
        return [trial for trial in self._trials if trial is not None]

    @property
    def free(self) -> int:
        return self.size - len(self.live)

    def join_all(self, trials: Sequence[Trial], sound: Sound, prompts: PromptCache) -> None:
        """Put all of these prompts, and what is heard, into free slots, a trial for each row.

        Where all slots are free, what is heard becomes theirs as it is: hundreds of megabytes that are not copied.
        """
        if not self.live:
            self._adopt(sound, prompts)
            for row, trial in enumerate(trials):
                trial.audio = sound.lengths[row]
                self._begin(row, trial)
            self._resize(self._rows_for(len(trials)))
            return
        self._resize(max(len(self._trials), self._rows_for(len(self.live) + len(trials))))
        for index, trial in enumerate(trials):
            self.join(trial, sound, prompts, index)

    def _adopt(self, sound: Sound, prompts: PromptCache) -> None:
        rows = len(sound.lengths)
        self._cross, self._counts, self._cache = list(sound.cross), sound.counts, list(prompts.layers)
        self._trials = [None] * rows
        self._tokens = self._positions = mx.zeros((rows,), mx.int32)
        self._state = RuleState.start([0] * rows)
        self._pending = None
        self._lengthen(self._length + 1)

    def _rows_for(self, live: int) -> int:
        """How many rows the arrays have for so many live ones."""
        return min(self.size, 1 << max(0, live - 1).bit_length())

    def join(self, trial: Trial, sound: Sound, prompts: PromptCache, index: int) -> None:
        """Put row `index` of prefilled prompts and of what is heard into a free slot.

        Of its prompt as much as is its own: what is behind that is padding. The whole row is written: a NaN that the
        slot's last window left behind would get through the mask (0 * NaN).
        """
        trial.audio = sound.lengths[index]
        row = self._free_row(sound, prompts, len(trial.prompt))
        for held, new in zip(self._cross, sound.cross, strict=True):
            _write(held, row, new, index)
        counts = _behind(sound.counts[index : index + 1], self._counts.shape[1])
        self._counts = put(self._counts, mx.array([row]), counts)
        for held, pair in zip(self._cache, prompts.layers, strict=True):
            _write(held, row, _first(pair, len(trial.prompt)), index)
        self._begin(row, trial)

    def restart(self, old: Trial, new: Trial) -> None:
        """Begin a trial where another was: audio and prompt are in place. How a window gets its next temperature."""
        new.audio = old.audio
        self._begin(self._trials.index(old), new)

    def _begin(self, row: int, trial: Trial) -> None:
        """The prompt's last token is fed again, at its own place: its logits are those of the first new token."""
        self._trials[row] = trial
        at = mx.array([row])
        self._tokens = put(self._tokens, at, mx.array([trial.prompt[-1]], mx.int32))
        self._positions = put(self._positions, at, mx.array([len(trial.prompt) - 1], mx.int32))
        self._state = self._state.put(at, RuleState.start([trial.end]))

    def leave(self, trial: Trial) -> None:
        self._trials[self._trials.index(trial)] = None

    def step(self) -> list[Trial]:
        """Decode one token in every row; returns the trials that finished.

        The device works one step ahead: this call starts a step, then reads the one before, so that the host's
        bookkeeping costs the device nothing. A finished row is noticed one step late and that step's token dropped.
        """
        self._shrink()
        self._shorten()
        self._lengthen(max((len(t.prompt) + len(t.tokens) for t in self.live), default=0) + 2)
        started = self._start()
        finished = self._collect()
        self._pending = started
        return finished

    def _start(self) -> tuple[mx.array, mx.array, list[Trial | None]]:
        self._visible = (mx.arange(self._length)[None, :] <= self._positions[:, None])[:, None, None, :]
        cross, heard = self._audio()
        watch = self._queries.watch if any(trial.words for trial in self.live) else None
        hidden = self.decoder(self._tokens[:, None], self._positions[:, None], self, cross, heard, watch)
        kept = [self._queries.write(self._positions, self._length)] if watch else []
        logits = self.decoder.logits(hidden[:, 0])
        token, logprob = self.rules.choose(logits, self._state, self._noise(logits.shape[-1]))
        self._state = self._state.after(token, self.rules.timestamp_begin)
        self._tokens, self._positions = token, mx.minimum(self._positions + 1, self._length - 1)
        mx.async_eval(token, logprob, *kept)
        return token, logprob, list(self._trials)

    @property
    def _longest(self) -> int:
        """How many positions of audio any live row has."""
        return max((trial.audio for trial in self.live), default=1)

    def _audio(self) -> tuple[list[KeysValues], mx.array]:
        """The audio's keys and values as far as any live row has some, and what they count for in each row."""
        longest = self._longest
        cross = [(keys[:, :, :longest], values[:, :, :longest]) for keys, values in self._cross]
        return cross, self._counts[:, None, None, :longest]

    def _collect(self) -> list[Trial]:
        if self._pending is None:
            return []
        tokens, logprobs, trials = self._pending
        live = {id(trial) for trial in self.live}
        finished = []
        for trial, token, logprob in zip(trials, tokens.tolist(), logprobs.tolist(), strict=True):
            if trial is None or trial.finished or id(trial) not in live:
                continue
            trial.logprob += logprob
            trial.finished = token == self.rules.eot or logprob != logprob
            if not trial.finished:
                trial.tokens.append(token)
                trial.logprobs.append(logprob)
                trial.finished = trial.cut = len(trial.tokens) >= trial.limit
            if trial.finished:
                finished.append(trial)
        return finished

    def attention(self, trial: Trial) -> NDArray[np.float32]:
        """Where in its audio a finished trial, that is still in its slot, looked for each token: scores before the
        softmax [heads, tokens + 1, steps of 20 ms], the last for what would have come after its tokens.
        """
        row, first, count = self._trials.index(trial), len(trial.prompt) - 1, len(trial.tokens) + 1
        scores = self._queries.scores(row, first, count, [keys[row, :, : trial.audio] for keys, _ in self._cross])
        return np.asarray(scores)[:, :count, : trial.end]

    def append(self, layer: int, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array, mx.array | None]:
        """One new key and value per row [rows, heads, 1, d], written at each row's own position (SelfCache)."""
        held_keys, held_values = self._cache[layer]
        rows = mx.arange(len(self._trials))
        held_keys[rows, :, self._positions] = keys[:, :, 0]
        held_values[rows, :, self._positions] = values[:, :, 0]
        return held_keys, held_values, self._visible

    # ---- shapes

    @property
    def _length(self) -> int:
        return self._cache[0][0].shape[2]

    def _free_row(self, sound: Sound, prompts: PromptCache, length: int) -> int:
        """A row to write to, after making the arrays as large as it takes."""
        if not self._cross:
            self._cross = [_empty(pair) for pair in sound.cross]
            self._counts = self._counts.astype(sound.counts.dtype)
            self._cache = [_empty(pair) for pair in prompts.layers]
        if None not in self._trials:
            self._resize(self._rows_for(len(self._trials) + 1))
        heard = sound.counts.shape[1]
        self._cross = [_padded(pair, len(self._trials), heard) for pair in self._cross]
        self._counts = _behind(self._counts, heard)
        self._lengthen(length + 1)
        return self._trials.index(None)

    def _lengthen(self, length: int) -> None:
        if length > self._length:
            bucket = next((n for n in self._lengths if n >= length), self._lengths[-1])
            self._cache = [_padded(pair, len(self._trials), bucket) for pair in self._cache]

    def _resize(self, rows: int) -> None:
        """More rows, dead ones."""
        more = rows - len(self._trials)
        if not more:
            return
        self._trials += [None] * more
        self._tokens = mx.pad(self._tokens, (0, more))
        self._positions = mx.pad(self._positions, (0, more))
        self._state = self._state.padded(more)
        self._counts = mx.pad(self._counts, ((0, more), (0, 0)))
        self._cross = [_padded(pair, rows, pair[0].shape[2]) for pair in self._cross]
        self._cache = [_padded(pair, rows, pair[0].shape[2]) for pair in self._cache]

    def _shrink(self) -> None:
        """Fewer rows, once half of them are dead: the live ones move together."""
        live = [row for row, trial in enumerate(self._trials) if trial is not None]
        if not live or 2 * len(live) > len(self._trials):
            return
        rows = mx.array(live)
        self._trials = [self._trials[row] for row in live]
        self._tokens, self._positions, self._state = self._tokens[rows], self._positions[rows], self._state.take(rows)
        self._counts = self._counts[rows]
        self._cross = [(keys[rows], values[rows]) for keys, values in self._cross]
        self._cache = [(keys[rows], values[rows]) for keys, values in self._cache]
        self._queries.take(rows)
        self._resize(self._rows_for(len(live)))

    def _shorten(self) -> None:
        """Less room for audio, once a row that had far more of it is gone: one at full context takes all rows there."""
        longest = self._longest
        if self.live and 2 * longest <= self._counts.shape[1]:
            self._counts = mx.contiguous(self._counts[:, :longest])
            self._cross = [
                (mx.contiguous(keys[:, :, :longest]), mx.contiguous(values[:, :, :longest]))
                for keys, values in self._cross
            ]

    # ---- chance

    def _noise(self, n_vocab: int) -> mx.array | None:
        """Temperature times Gumbel noise [rows, n_vocab]; None where every row is greedy.

        Each row draws from a key made of its own seed and position, never of its neighbours or its slot.
        """
        if all(trial is None or trial.temperature == 0 for trial in self._trials):
            return None
        return mx.stack([_row_noise(trial, n_vocab) for trial in self._trials])


def _row_noise(trial: Trial | None, n_vocab: int) -> mx.array:
    if trial is None or trial.temperature == 0:
        return mx.zeros((n_vocab,))
    trial.drawn += 1
    return trial.temperature * mx.random.gumbel((n_vocab,), key=mx.random.key(trial.seed + trial.drawn))


def _empty(like: KeysValues) -> KeysValues:
    _, heads, _, d = like[0].shape
    return mx.zeros((0, heads, 0, d), like[0].dtype), mx.zeros((0, heads, 0, d), like[0].dtype)


def _padded(pair: KeysValues, rows: int, length: int) -> KeysValues:
    """Zeros behind, up to `rows` and `length`; never shorter than it was."""
    have_rows, _, have_length, _ = pair[0].shape
    if rows <= have_rows and length <= have_length:
        return pair
    width = [(0, max(0, rows - have_rows)), (0, 0), (0, max(0, length - have_length)), (0, 0)]
    return mx.pad(pair[0], width), mx.pad(pair[1], width)


def _behind(counts: mx.array, length: int) -> mx.array:
    """Counts [n, s] as far as `length`, of positions that nobody hears."""
    more = max(0, length - counts.shape[1])
    return mx.pad(counts, ((0, 0), (0, more)), constant_values=-mx.inf) if more else counts


def _first(pair: KeysValues, length: int) -> KeysValues:
    return pair[0][:, :, :length], pair[1][:, :, :length]


def _write(held: KeysValues, row: int, new: KeysValues, index: int) -> None:
    """Row `index` of `new` into row `row` of `held`, zeros behind it."""
    rest = [(0, 0), (0, held[0].shape[2] - new[0].shape[2]), (0, 0)]
    for into, source in zip(held, new, strict=True):
        into[row] = mx.pad(source[index], rest)
