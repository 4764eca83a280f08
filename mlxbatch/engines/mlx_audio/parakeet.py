"""Parakeet: the encoder over a padded, masked batch, then greedy decoding of all rows together; words with times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from numpy.typing import NDArray

from mlxbatch.engines.mlx_audio.cuts import Cut
from mlxbatch.engines.mlx_audio.heard import Heard, Token, aligned, sentence
from mlxbatch.engines.mlx_audio.hearing import NOT_A_NUMBER, Tick, samples_of
from mlxbatch.errors import SetupError

# Tokens at one frame, where the config does not say: NeMo's own. Without a bound a row could stay at a frame for ever.
MOST_SYMBOLS = 10


class Parakeet:
    """TDT models are decoded here, as a batch; CTC and RNN-T models row by row in mlx-audio, without probabilities."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._encoder = model.encoder
        if model.encoder_config.self_attention_model != "rel_pos":
            kind = model.encoder_config.self_attention_model
            raise SetupError(f"a Parakeet with attention of kind {kind!r}: only 'rel_pos' is known here")
        if hasattr(model, "max_symbols"):
            model.max_symbols = model.max_symbols or MOST_SYMBOLS
        preprocessor = model.preprocessor_config
        self._dtype = model.encoder.pre_encode.out.weight.dtype
        self._frame = model.encoder_config.subsampling_factor * preprocessor.hop_length / preprocessor.sample_rate

    def problem(self, language: str | None) -> str | None:
        return None

    def hear(self, cuts: Sequence[Cut], tick: Tick) -> list[Heard]:
        mels = [self._model._log_mel_spectrogram(mx.array(samples_of(cut)))[0] for cut in cuts]
        lengths = [len(mel) for mel in mels]
        batch = mx.stack([mx.pad(mel, ((0, max(lengths) - len(mel)), (0, 0))) for mel in mels])
        encoded, counts = self._encode(batch.astype(self._dtype), mx.array(lengths))
        broken = mx.isnan(encoded).any(axis=2) & (mx.arange(encoded.shape[1]) < counts[:, None])
        mx.eval(encoded, counts, broken)
        tick()
        decode = self._transduce if hasattr(self._model, "durations") else self._one_by_one
        heard = decode(encoded, np.array(counts), tick)
        bad = np.array(broken.any(axis=1))
        return [Heard(problem=NOT_A_NUMBER) if row else one for row, one in zip(bad, heard, strict=True)]

    def _encode(self, mels: mx.array, lengths: mx.array) -> tuple[mx.array, mx.array]:
        """mels [n, frames, bands] -> [n, frames / 8, width] and how many of those are each row's.

        mlx-audio's encoder has no mask, or one that lets the bias of padded frames into a row's last one.
        """
        sound, lengths = _subsampled(self._encoder.pre_encode, mels, lengths)
        sound, positions = self._encoder.pos_enc(sound)
        valid = _valid(sound, lengths)
        for layer in self._encoder.layers:
            sound = layer(sound, pos_emb=positions, mask=~valid[:, None, None, :], valid=valid)
        return sound, lengths

    def _one_by_one(self, encoded: mx.array, counts: NDArray[np.int64], tick: Tick) -> list[Heard]:
        """mlx-audio's own decoding, given what the encoder made of each row."""
        found = []
        for row, count in enumerate(counts.tolist()):
            self._model.encoder = lambda mel, row=row, count=count: (encoded[row : row + 1, :count], mx.array([count]))
            result = self._model.decode(encoded[row])[0]
            tick()
            found.append(Heard(aligned(result.sentences), None, sum(len(s.tokens) for s in result.sentences)))
        return found

    def _transduce(self, encoded: mx.array, counts: NDArray[np.int64], tick: Tick) -> list[Heard]:
        """Greedy token-and-duration decoding (Xu et al. 2023, "Efficient Sequence Transduction by Jointly Predicting
        Tokens and Durations"), each row at a frame of its own.

        A row moves on by the duration that it predicts; where that is 0, after `max_symbols` tokens by one frame.
        """
        blank, durations = self._model.blank_id, np.array(self._model.durations)
        most = self._model.max_symbols
        rows = len(counts)
        state = _State(self._model, rows, encoded.dtype)
        frame, stayed = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        tokens: list[list[Token]] = [[] for _ in range(rows)]
        while (live := frame < counts).any():
            at = mx.array(np.minimum(frame, counts - 1))
            token, probability, choice = state.step(encoded[mx.arange(rows), at])
            steps = durations[choice]
            said = live & (token != blank)
            for row in np.flatnonzero(said).tolist():
                self._add(tokens[row], int(token[row]), frame[row], steps[row], float(probability[row]))
            state.keep(said, token)
            stayed = np.where(steps == 0, stayed + 1, 0)
            stuck = stayed >= most
            frame += np.where(live, steps + stuck, 0)
            stayed[stuck] = 0
            tick()
        return [self._told(row) for row in tokens]

    def _add(self, tokens: list[Token], token: int, frame: int, steps: int, probability: float) -> None:
        from mlx_audio.stt.models.parakeet import tokenizer

        vocabulary = self._model.vocabulary
        if not tokenizer.is_special_token(token, vocabulary):
            text = tokenizer.decode([token], vocabulary)
            tokens.append(Token(token, text, float(frame * self._frame), float(steps * self._frame), probability))

    def _told(self, tokens: list[Token]) -> Heard:
        from mlx_audio.stt.models.nemo.alignment import tokens_to_sentences

        told = [sentence(one.text, one.start, one.end, one.tokens) for one in tokens_to_sentences(tokens)]
        return Heard(tuple(told), None, len(tokens))


def _subsampled(network: Any, sound: mx.array, lengths: mx.array) -> tuple[mx.array, mx.array]:
    """Strided convolutions, each of which sees zeros behind a row's end, as it would if the row were alone."""
    sound = sound[..., None]
    for layer in network.conv:
        strided = isinstance(layer, nn.Conv2d) and layer.stride != (1, 1)
        if strided:
            sound = mx.where(_valid(sound, lengths)[:, :, None, None], sound, 0)
            lengths = (lengths + 1) // 2
        sound = layer(sound)
    return network.out(sound.swapaxes(2, 3).reshape(*sound.shape[:2], -1)), lengths


def _valid(sound: mx.array, lengths: mx.array) -> mx.array:
    """Which frames are a row's own, [n, frames]."""
    return mx.arange(sound.shape[1])[None, :] < lengths[:, None]


class _State:
    """The prediction network of all rows: what each has said last, and its recurrent state [rows, width] by layer.

    mlx-audio's own step takes the rows of a batch for moments of one sequence, so the layers are called here.
    """

    def __init__(self, model: Any, rows: int, dtype: mx.Dtype) -> None:
        self._embed, self._layers = model.decoder.prediction["embed"], model.decoder.prediction["dec_rnn"].lstm
        self._joint, self._blank = model.joint, model.blank_id
        width = model.decoder.prediction["dec_rnn"].hidden_size
        self._states = [(mx.zeros((rows, width), dtype), mx.zeros((rows, width), dtype)) for _ in self._layers]
        self._last = mx.full((rows,), self._blank, mx.int32)

    def step(self, frames: mx.array) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
        """Frames [rows, width] -> each row's token, its probability, and which duration."""
        said = (self._last != self._blank)[:, None]
        hidden = mx.where(said, self._embed(self._last), 0)[:, None]
        self._next = []
        for layer, (state, cell) in zip(self._layers, self._states, strict=True):
            hidden, cells = layer(hidden, hidden=state, cell=cell)
            self._next.append((hidden[:, -1].astype(state.dtype), cells[:, -1].astype(cell.dtype)))
        scores = self._joint(frames[:, None], hidden.astype(frames.dtype))[:, 0, 0].astype(mx.float32)
        tokens = mx.argmax(scores[:, : self._blank + 1], axis=-1)
        chance = mx.softmax(scores[:, : self._blank + 1], axis=-1)
        chance = mx.take_along_axis(chance, tokens[:, None], axis=-1)[:, 0]
        choice = mx.argmax(scores[:, self._blank + 1 :], axis=-1)
        mx.eval(tokens, chance, choice, self._next)
        return np.array(tokens), np.array(chance), np.array(choice)

    def keep(self, said: NDArray[np.bool_], tokens: NDArray[np.int64]) -> None:
        """Rows that said something go on from there; the others from where they were."""
        which = mx.array(said)
        self._last = mx.where(which, mx.array(tokens.astype(np.int32)), self._last)
        self._states = [
            tuple(mx.where(which[:, None], new, old) for new, old in zip(after, before, strict=True))
            for after, before in zip(self._next, self._states, strict=True)
        ]
