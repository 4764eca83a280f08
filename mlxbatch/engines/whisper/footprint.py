"""How much memory a Whisper takes, from the sizes in its config. Pure but for reading that file: no MLX."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlxbatch.encoder_context import WINDOW_FRAMES
from mlxbatch.engines.base import EngineSpec, Footprint
from mlxbatch.engines.whisper.heads import alignment_heads
from mlxbatch.engines.whisper.layout import BARE, CACHE_LENGTHS, Dims, canonical_name, expected_shapes
from mlxbatch.engines.whisper.windows import SAMPLE_RATE
from mlxbatch.models.architecture import quantization
from mlxbatch.models.weights import DTYPE_BYTES, headers, loaded_bytes, resident_bytes, weight_files
from mlxbatch.tiles import tile
from mlxbatch.vad.layout import ROW_BYTES

# The tokens whose attention is looked into are rounded up to this: MLX keeps a buffer for each shape.
ROUND = 64
# Operations that MLX hands over before the first of them is done: what they write is there already. (MLX 0.32 on the
# CPU, MAX_ACTIVE_TASKS; it goes through a graph breadth first, so that all tiles of attention are begun at once.)
AHEAD = 10
# Arrays as large as a tile's scores that exponentials hold at a time (kernels.exp2).
EXPONENTIALS = 4
# Activations [positions, n_state] of a window in a block of the encoder besides: x, y, queries, keys and values. A
# GPU's kernels keep no scores; what they take most for is the MLP, of four times the width, twice.
BLOCK, BLOCK_ON_GPU = 5, 12
# Arrays [rows, n_vocab] that choosing a token holds: logits, those of words, and their exponentials.
CHOICE = 2 + EXPONENTIALS
# Tokens for a second of speech, times included: generous, people say two to four.
TOKENS_PER_SECOND = 7
FRAMES_PER_SECOND = 100


def footprint(spec: EngineSpec) -> Footprint:
    """What WhisperEngine says of itself once it is loaded, of a directory that is whole; SetupError where it is not."""
    assert spec.model is not None
    config = json.loads((spec.model / "config.json").read_bytes())
    dims = Dims.from_config(config)
    on_cpu = spec.device.get("kind", "cpu") == "cpu"
    weights = weight_bytes(config, weight_files(spec.model), spec.dtype, spec.bits, plain=on_cpu)
    weights += loaded_bytes(weight_files(spec.vad), "float32") if spec.vad else 0
    heads = len(alignment_heads(spec.model, dims)) if spec.words else 0
    memory = Memory(dims, spec, heads)
    return Footprint(weights, memory.need, memory.working)


def weight_bytes(config: Mapping[str, Any], files: Sequence[Path], dtype: str, bits: int | None, *, plain: bool) -> int:
    """Bytes of the network's weights, whatever else the files hold; `plain`: none of its layers stays quantized."""
    stored = {canonical_name(name) or "": header for name, header in headers(files).items()}
    wanted = expected_shapes(Dims.from_config(config))
    layers = {name.rpartition(".")[0] for name in wanted if f"{name.rpartition('.')[0]}.scales" in stored}
    ours = {name: header for name, header in stored.items() if name in wanted or name.rpartition(".")[0] in layers}
    return resident_bytes(ours, dtype, bits, quantization(config), plain=plain)


def encoded_ahead(spec: EngineSpec) -> int:
    """Windows that are encoded before there is a row for them: what keeps the encoder at work while all rows decode."""
    return max(spec.encode_rows * spec.encode_streams, spec.batch_size // 2)


@dataclass(frozen=True)
class Memory:
    """Bytes that a Whisper of these sizes takes beside its weights, run as `spec` says.

    `heads` are those whose queries are kept to time words.

    A window is counted at its own length. One that is encoded a second time, at the full 30 s, because its text was
    doubtful, is not: few are, and the governor sees what they take.
    """

    dims: Dims
    spec: EngineSpec
    heads: int = 0

    def need(self, seconds: float) -> int:
        """Of a recording: its samples, the features of two windows that wait, and its row in the decoder's arrays.

        The row is as long as its audio and its text. While rows double, as many as there were are there twice, less
        those of the layers that are done.
        """
        samples = math.ceil(seconds * SAMPLE_RATE) * 4
        mel = 2 * self._frames(seconds) * self.dims.n_mels * self._size
        twice = 0.5 * (1.0 if self._on_gpu else min(1.0, AHEAD / (2 * self.dims.n_text_layer)))
        cross = self._keys_values(self._positions(seconds))
        cache = self._keys_values(self._text_length(seconds))
        queries = (
            self.heads * self._text_length(seconds) * (self.dims.n_text_state // self.dims.n_text_head) * self._size
        )
        return samples + mel + int((1 + twice) * cross) + cache + queries + CHOICE * self.dims.n_vocab * 4

    def working(self, longest: float) -> int:
        """Of the encoder calls under way, and of the search for speech; of windows as long as the longest recording.

        Windows that are encoded ahead of a row hold their keys and values; those of one at a time have the attention
        of its heads looked into.
        """
        positions = self._positions(longest)
        ahead = encoded_ahead(self.spec) * self._keys_values(positions)
        looked = self.heads * (self._text_length(longest) + ROUND) * positions * 4
        sinusoids = self.dims.n_audio_ctx * self.dims.n_audio_state * 4
        calls = self.spec.encode_streams * self._call(self.spec.encode_rows, self._positions(longest))
        return sinusoids + calls + ahead + looked + (ROW_BYTES if self.spec.vad else 0)

    def _call(self, rows: int, positions: int) -> int:
        """Of an encoder call: what a block holds, or the keys and values that it ends in where they are more."""
        block = BLOCK_ON_GPU if self._on_gpu else BLOCK
        activations = block * positions * self.dims.n_audio_state * self._size
        inner = rows * activations + self._scores(rows, positions) * self._size
        return max(inner, rows * self._keys_values(positions))

    def _scores(self, rows: int, positions: int) -> int:
        """Numbers that attention holds of its scores: of every tile one, and of those begun those of exponentials."""
        heads = self.dims.n_audio_head
        if self._on_gpu:
            return 0
        if self.spec.dtype != "float32":
            return 3 * rows * heads * positions**2  # MLX's own attention, all at once
        some, queries = tile(heads, positions, positions)
        tiles = rows * math.ceil(heads / some) * math.ceil(positions / queries)
        each = rows * heads * positions**2 // tiles
        begun = min((EXPONENTIALS - 1) * (tiles + 1), AHEAD + EXPONENTIALS)
        return each * (tiles + begun)

    def _keys_values(self, length: int) -> int:
        """Of a row: keys and values of all layers of the decoder for so many positions or tokens."""
        return 2 * self.dims.n_text_layer * length * self.dims.n_text_state * self._size

    def _own_frames(self, seconds: float) -> int:
        return min(WINDOW_FRAMES, math.ceil(seconds * FRAMES_PER_SECOND))

    def _frames(self, seconds: float) -> int:
        return self.spec.context.frames(self._own_frames(seconds))

    def _positions(self, seconds: float) -> int:
        return self.spec.context.positions(self._own_frames(seconds))

    def _text_length(self, seconds: float) -> int:
        """The bucket that the text of so many seconds fits in, start and end of transcript and all."""
        tokens = BARE + 1 + math.ceil(TOKENS_PER_SECOND * min(seconds, WINDOW_FRAMES / FRAMES_PER_SECOND))
        context = self.dims.n_text_ctx
        return next((n for n in CACHE_LENGTHS if tokens <= n < context), context)

    @property
    def _size(self) -> int:
        """Bytes of a number."""
        return DTYPE_BYTES[self.spec.dtype]

    @property
    def _on_gpu(self) -> bool:
        return self.spec.device.get("kind", "cpu") == "gpu"
