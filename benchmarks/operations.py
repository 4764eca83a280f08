"""Where the network's time goes by operation: each timed by itself at the run's shapes, between two evaluations.

    python -m benchmarks.operations [--frames 1500] [--rows 16] [--repeat 20]

An encoder call is one window of so many log-mel frames (100 a second), a decoder step is one token in each of `rows`
slots that hear as long a window. An operation's time alone is not its share to the last digit: MLX overlaps some, and
the whole call, timed as it is, stands in the last line.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.peers import MODEL
from benchmarks.table import markdown
from mlxbatch import blas
from mlxbatch.models.resolve import resolve

blas.preload()

import mlx.core as mx  # noqa: E402

from mlxbatch import kernels  # noqa: E402
from mlxbatch.engines.whisper import network  # noqa: E402
from mlxbatch.engines.whisper.abilities import Abilities  # noqa: E402
from mlxbatch.engines.whisper.features import log_mel  # noqa: E402
from mlxbatch.engines.whisper.network import KeysValues, Network  # noqa: E402
from mlxbatch.engines.whisper.rules import Rules, RuleState  # noqa: E402
from mlxbatch.engines.whisper.windows import FRAME_SAMPLES, WINDOW_STAMPS  # noqa: E402
from mlxbatch.models.check import check_whisper  # noqa: E402

# The self-attention cache of a short text; see layout.CACHE_LENGTHS.
CACHE_LENGTH = 64
Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that is done `times` in one call; `less` is what is in its work and counted elsewhere."""

    name: str
    times: int
    work: Work
    less: tuple[Work, ...] = ()


class WrittenCache:
    """The decoder's own keys and values in one place: each step writes at the same position, as Slots does at each
    row's own."""

    def __init__(self, layers: int, shape: tuple[int, ...]) -> None:
        self.held: list[KeysValues] = [(mx.zeros(shape), mx.zeros(shape)) for _ in range(layers)]
        self.rows, self.position = mx.arange(shape[0]), mx.full((shape[0],), shape[2] // 2)
        self.seen = (mx.arange(shape[2])[None, :] <= self.position[:, None])[:, None, None, :]

    def append(self, layer: int, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array, mx.array | None]:
        for held, new in zip(self.held[layer], (keys, values), strict=True):
            held[self.rows, :, self.position] = new[:, :, 0]
        return (*self.held[layer], self.seen)


def encoder_operations(net: Network, frames: int) -> Iterator[Operation]:
    """Of one window [1, frames, n_mels]; hidden states are [1, frames / 2, n_state]."""
    dims, block = net.dims, net.encoder.blocks[0]
    samples = np.random.default_rng(0).standard_normal(frames * FRAME_SAMPLES, np.float32)
    mel, wide = noise(1, frames, dims.n_mels), noise(1, frames, dims.n_audio_state)
    x, inner = noise(1, frames // 2, dims.n_audio_state), noise(1, frames // 2, 4 * dims.n_audio_state)
    layers = dims.n_audio_layer
    yield Operation("log-mel", 1, lambda: log_mel(samples, dims.n_mels, mx.float32, frames))
    yield Operation("conv 1", 1, lambda: net.encoder.conv1(mel))
    yield Operation("conv 2", 1, lambda: net.encoder.conv2(wide))
    yield Operation("GELU after conv 1", 1, lambda: kernels.by_rows(kernels.gelu, wide))
    yield Operation("GELU after conv 2", 1, lambda: kernels.by_rows(kernels.gelu, x))
    yield from shared(block, x, inner, layers, norms=2 * layers + 1)
    yield Operation("GEMM: query, key, value, out", 4 * layers, lambda: block.attn.query(x))
    q = block.attn.heads(x)
    yield from attention("attention", q, q, layers)


def decoder_operations(net: Network, rules: Rules, rows: int, frames: int) -> Iterator[Operation]:
    """Of one step: a token in each row, hidden states [rows, 1, n_state]."""
    dims, block, decoder = net.dims, net.decoder.blocks[0], net.decoder
    x, inner = noise(rows, 1, dims.n_text_state), noise(rows, 1, 4 * dims.n_text_state)
    layers, heads, d = dims.n_text_layer, dims.n_text_head, dims.n_text_state // dims.n_text_head
    tokens, logits = mx.zeros((rows, 1), mx.int32), noise(rows, dims.n_vocab)
    q, own, audio = noise(rows, heads, 1, d), noise(rows, heads, CACHE_LENGTH, d), noise(rows, heads, frames // 2, d)
    cache, state = WrittenCache(layers, own.shape), RuleState.start([WINDOW_STAMPS] * rows)
    yield Operation("embeddings", 1, lambda: decoder.token_embedding(tokens) + decoder.positional_embedding[tokens])
    yield from shared(block, x, inner, layers, norms=3 * layers + 1)
    yield Operation("GEMM: query, key, value, out of both", 6 * layers, lambda: block.attn.query(x))
    yield Operation("cache write", layers, lambda: cache.append(0, q, q)[:2])
    yield from attention("self-attention", q, own, layers)
    yield from attention("cross-attention", q, audio, layers)
    yield Operation("GEMM: logits", 1, lambda: decoder.logits(x[:, 0]))
    yield Operation("token choice", 1, lambda: rules.choose(logits, state))


def shared(block: network.Block, x: mx.array, inner: mx.array, layers: int, norms: int) -> Iterator[Operation]:
    """What both halves of the network do."""
    yield Operation("layer norm", norms, lambda: block.attn_ln(x))
    yield Operation("GEMM: MLP 1", layers, lambda: block.mlp1(x))
    yield Operation("GELU in the MLP", layers, lambda: kernels.by_rows(kernels.gelu, inner))
    yield Operation("GEMM: MLP 2", layers, lambda: block.mlp2(inner))


def attention(name: str, q: mx.array, k: mx.array, layers: int) -> Iterator[Operation]:
    """Its two products by themselves, and what it takes beside them: the softmax, and what moves the scores."""
    weights = mx.zeros((*q.shape[:3], k.shape[2]))
    mx.eval(weights)
    scores: Work = lambda: q @ k.swapaxes(-1, -2)  # noqa: E731
    values: Work = lambda: weights @ k  # noqa: E731
    yield Operation(f"GEMM: {name}, scores", layers, scores)
    yield Operation(f"GEMM: {name}, values", layers, values)
    yield Operation(f"softmax: {name}", layers, lambda: kernels.attention(q, k, k, scale=0.1), (scores, values))


def noise(*shape: int) -> mx.array:
    made = mx.random.normal(shape, key=mx.random.key(0))
    mx.eval(made)
    return made


def milliseconds(work: Work, repeat: int) -> float:
    """The least of `repeat` runs, after one that counts for nothing: other programs only add to it."""
    took = []
    for _ in range(repeat + 1):
        began = time.perf_counter()
        mx.eval(work())
        took.append(1000 * (time.perf_counter() - began))
    return min(took[1:])


def operations_table(operations: Iterator[Operation], whole: Work, repeat: int) -> str:
    """Most time first; the last line is the call as it is."""
    found = []
    for one in operations:
        each = milliseconds(one.work, repeat) - sum(milliseconds(less, repeat) for less in one.less)
        found.append((one, max(0.0, each)))
    total = sum(one.times * each for one, each in found)
    rows = [
        [one.name, str(one.times), f"{each:.3f}", f"{one.times * each:.1f}", f"{one.times * each / total:.0%}"]
        for one, each in sorted(found, key=lambda pair: -pair[0].times * pair[1])
    ]
    rows.append(["sum", "", "", f"{total:.1f}", "100%"])
    rows.append(["the call as it is", "1", "", f"{milliseconds(whole, repeat):.1f}", ""])
    return markdown(["operation", "times", "ms each", "ms", "share"], rows)


def load(directory: Path) -> tuple[Network, Rules]:
    files = check_whisper(directory)
    config = json.loads(files.config.read_text("utf-8"))
    net = network.load(list(files.weights), config, mx.float32)
    return net, Rules(Abilities.read(directory).vocabulary, files.dims.n_vocab)


def report(net: Network, rules: Rules, frames: int, rows: int, repeat: int) -> None:
    mel = noise(1, frames, net.dims.n_mels)
    print(f"### An encoder call: one window of {frames / 100:g} s\n")
    print(operations_table(encoder_operations(net, frames), lambda: net.encoder(mel), repeat))
    heads, d = net.dims.n_text_head, net.dims.n_text_state // net.dims.n_text_head
    cross = net.decoder.cross(noise(rows, frames // 2, net.dims.n_audio_state))
    mx.eval(cross)
    cache = WrittenCache(net.dims.n_text_layer, (rows, heads, CACHE_LENGTH, d))
    tokens, state = mx.zeros((rows, 1), mx.int32), RuleState.start([WINDOW_STAMPS] * rows)

    def step() -> object:
        hidden = net.decoder(tokens, cache.position[:, None], cache, cross)
        return rules.choose(net.decoder.logits(hidden[:, 0]), state)

    print(f"\n### A decoder step: {rows} rows that hear {frames / 100:g} s, {CACHE_LENGTH} tokens\n")
    print(operations_table(decoder_operations(net, rules, rows, frames), step, repeat))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--frames", type=int, default=1500, help="log-mel frames of a window, 100 a second, even")
    parser.add_argument("--rows", type=int, default=16, help="slots of the decoder")
    parser.add_argument("--repeat", type=int, default=20)
    options = parser.parse_args()
    if not mx.metal.is_available() and not mx.cuda.is_available():
        mx.set_default_device(mx.Device(mx.cpu))
    net, rules = load(resolve(MODEL, offline=False, say=print).path)
    print(f"{MODEL}, float32, {mx.default_device()}, BLAS: {blas.description()}\n")
    report(net, rules, options.frames, options.rows, options.repeat)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
