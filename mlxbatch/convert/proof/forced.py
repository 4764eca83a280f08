"""Next-token distributions of Whispers under teacher forcing, and how far two of them are apart.

Forced is what the original itself says, greedily, with its times: a text that it is at home in, and that is there for
recordings without one. (A reference text is spelled otherwise, mostly without punctuation, and has no times: where the
original is surprised at every word, two models may differ much without consequence.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlxbatch import kernels
from mlxbatch.encoder_context import Context
from mlxbatch.engines.whisper.abilities import Abilities
from mlxbatch.engines.whisper.features import log_mel
from mlxbatch.engines.whisper.network import Decoder, Network
from mlxbatch.engines.whisper.slots import PromptCache, Sound
from mlxbatch.engines.whisper.windows import FRAME_SAMPLES, SAMPLE_RATE, SECONDS_PER_STAMP, WINDOW_STAMPS
from mlxbatch.quality import NO_SPACES
from mlxbatch.types import Output, Segment

FORCED = "the original's own greedy text, with its times"
# Tokens whose logits are held at a time: 51,866 of float32 each.
_CHUNK = 64
# Texts are padded to whole lengths of so many tokens, so that shapes stay few.
_ROUND = 32


@dataclass(frozen=True, eq=False)
class Forced:
    """A window of a clip (by its number), its samples at 16 kHz, and the tokens that are forced after the prompt."""

    clip: int
    samples: NDArray[np.float32]
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Batch:
    """Windows of as many frames. `tokens` [n, t] are prompt and text but for the last, padded behind; `asked` are the
    places in the flattened n x t from which a token of the text is predicted, `clips` the clip of each of those."""

    windows: tuple[Forced, ...]
    frames: int
    tokens: mx.array
    asked: mx.array
    clips: NDArray[np.int64]


# ---- what is forced


def windows(outputs: Sequence[Output], samples: NDArray[np.float32], clip: int, abilities: Abilities) -> list[Forced]:
    """What a model said of one clip, window by window, as tokens to be forced; nothing of windows without text."""
    found = []
    for output in outputs:
        first = round(output.stats.start * SAMPLE_RATE)
        heard = samples[first : first + round(output.stats.seconds * SAMPLE_RATE)]
        prompt = _prompt(abilities, output.language or "en")
        tokens = _tokens(output, abilities)[: abilities.dims.n_text_ctx - len(prompt)]
        if tokens and len(heard):
            found.append(Forced(clip, heard, tuple(prompt), tuple(tokens)))
    return found


def _prompt(abilities: Abilities, language: str) -> list[int]:
    vocabulary = abilities.vocabulary
    return vocabulary.prompt(language, "transcribe") if abilities.languages else [vocabulary.sot]


def _tokens(output: Output, abilities: Abilities) -> list[int]:
    """Each segment between its times, and the end: but where another window goes on, it is not known to end there."""
    language = output.language or "en"
    found = [token for one in output.segments for token in _segment(one, output.stats.start, abilities, language)]
    return [*found, abilities.vocabulary.eot] if found and output.last else found


def _segment(segment: Segment, start: float, abilities: Abilities, language: str) -> list[int]:
    vocabulary = abilities.vocabulary
    begin, end = (
        vocabulary.timestamp_begin + min(max(0, round((time - start) / SECONDS_PER_STAMP)), WINDOW_STAMPS)
        for time in (segment.start, segment.end)
    )
    text = segment.text if language in NO_SPACES else f" {segment.text}"
    said = vocabulary.tokenizer.encode(text, add_special_tokens=False).ids
    return [begin, *said, end]


# ---- in batches


def batches(forced: Sequence[Forced], context: Context, rows: int) -> Iterator[Batch]:
    """Windows of the same length together, at most `rows`."""

    def frames(one: Forced) -> int:
        return context.frames(-(-len(one.samples) // FRAME_SAMPLES))

    for length, same in groupby(sorted(forced, key=frames), key=frames):
        some = list(same)
        for first in range(0, len(some), rows):
            yield _batch(some[first : first + rows], length)


def _batch(some: Sequence[Forced], frames: int) -> Batch:
    given = [[*one.prompt, *one.tokens[:-1]] for one in some]
    length = -(-max(map(len, given)) // _ROUND) * _ROUND
    tokens = np.zeros((len(some), length), np.int32)
    asked, clips = [], []
    for row, (one, before) in enumerate(zip(some, given, strict=True)):
        tokens[row, : len(before)] = before
        asked += [row * length + place for place in range(len(one.prompt) - 1, len(before))]
        clips += [one.clip] * len(one.tokens)
    return Batch(tuple(some), frames, mx.array(tokens), mx.array(asked), np.array(clips))


# ---- through a network


def encode(network: Network, batch: Batch, context: Context, dtype: mx.Dtype) -> tuple[mx.array, mx.array]:
    """The batch's encoded audio and what its positions count for, as Encoder gives them."""
    mels = [log_mel(one.samples, network.dims.n_mels, dtype, batch.frames) for one in batch.windows]
    return network.encoder(mx.stack(mels), context.stretches(batch.frames))


def hidden(decoder: Decoder, batch: Batch, features: mx.array, counts: mx.array) -> mx.array:
    """The decoder's state before each token of the text, [tokens, n_state], evaluated."""
    sound = Sound.of(decoder.cross(features), counts)
    context = decoder.positional_embedding.shape[0]
    tokens = batch.tokens[:, :context]
    places = mx.broadcast_to(mx.arange(tokens.shape[1]), tokens.shape)
    states = decoder(tokens, places, PromptCache(), sound.cross, sound.heard)
    length = batch.tokens.shape[1]
    found = states[batch.asked // length, batch.asked % length]
    mx.eval(found)
    return found


Logits = Callable[[mx.array], mx.array]
"""A decoder's states [n, n_state] to float32 logits [n, vocabulary]."""


def compare(
    original: Logits, states: mx.array, converted: Logits, others: mx.array
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Of each token: the divergence of the converted model's distribution, in nats, and whether the top is the same.

    `states` and `others` are what `hidden` gives of each, of the same tokens.
    """
    nats, same = [], []
    for first in range(0, len(states), _CHUNK):
        p = original(states[first : first + _CHUNK])
        q = converted(others[first : first + _CHUNK])
        some, tops = divergence(p, q), mx.argmax(p, axis=-1) == mx.argmax(q, axis=-1)
        mx.eval(some, tops)
        nats.append(np.asarray(some, np.float64))
        same.append(np.asarray(tops))
    return np.concatenate(nats), np.concatenate(same)


def divergence(p: mx.array, q: mx.array) -> mx.array:
    """KL(P || Q) of two rows of logits [n, vocabulary] each, float32, in nats: sum of P (log P - log Q).

    Each term has Q - P added, which sums to nothing: so none is negative but for its own rounding, and small
    divergences are not lost in the rounding of two sums of 1.
    """
    (share, log_share), (other, log_other) = _distribution(p), _distribution(q)
    return mx.maximum(mx.sum(share * (log_share - log_other) - share + other, axis=-1), 0.0)


def _distribution(logits: mx.array) -> tuple[mx.array, mx.array]:
    """Probabilities and their natural logarithms, each [n, vocabulary]."""
    x = logits - mx.max(logits, axis=-1, keepdims=True)
    powers = kernels.exp2(x * kernels.LOG2E)
    total = mx.sum(powers, axis=-1, keepdims=True)
    return powers / total, x - mx.log(total)
