"""Families with a CTC head and no mask for padding: rows of one length share a batch, and each is read by itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlxbatch.engines.mlx_audio.cuts import Cut
from mlxbatch.engines.mlx_audio.heard import Heard, code_of, plain
from mlxbatch.engines.mlx_audio.hearing import NOT_A_NUMBER, Tick, samples_of


class SenseVoice:
    """Its first four frames say language, emotion, event and style; one call takes one language."""

    QUERIES = 4

    def __init__(self, model: Any) -> None:
        self._model = model
        self._dtype = model.ctc_lo.weight.dtype

    def problem(self, language: str | None) -> str | None:
        return None

    def hear(self, cuts: Sequence[Cut], tick: Tick) -> list[Heard]:
        found: dict[int, Heard] = {}
        order = sorted(range(len(cuts)), key=lambda row: cuts[row].options.language or "auto")
        for language, rows in groupby(order, key=lambda row: cuts[row].options.language or "auto"):
            same = list(rows)
            features = [self._model._extract_features(mx.array(samples_of(cuts[row]))) for row in same]
            scores = self._model(mx.stack(features).astype(self._dtype), language=language, use_itn=True)
            mx.eval(scores)
            tick()
            found |= {row: self._read(one) for row, one in zip(same, scores, strict=True)}
        return [found[row] for row in range(len(cuts))]

    def _read(self, scores: mx.array) -> Heard:
        """Log-probabilities [frames, vocabulary] -> the text they say."""
        if bool(mx.isnan(scores).any()):
            return Heard(problem=NOT_A_NUMBER)
        tokens, text = self._model._greedy_ctc_decode(scores[self.QUERIES :])
        language = self._model._extract_rich_info(scores[: self.QUERIES])["language"]
        return plain(text, code_of(language), len(tokens))


class Wav2Vec2:
    """Characters from vocab.json, where "|" is a space.

    mlx-audio reads the characters with transformers' tokenizer once repetitions are gone, and so loses double letters.
    """

    SPECIAL = frozenset({"<pad>", "<s>", "</s>", "<unk>"})

    def __init__(self, model: Any) -> None:
        self._model = model
        self._dtype = model.lm_head.weight.dtype
        self._letters = {number: letter for number, letter in model._vocab.items() if letter not in self.SPECIAL}

    def problem(self, language: str | None) -> str | None:
        return None

    def hear(self, cuts: Sequence[Cut], tick: Tick) -> list[Heard]:
        scores = self._model(mx.array(np.stack([_normal(samples_of(cut)) for cut in cuts])).astype(self._dtype))
        broken = mx.isnan(scores).any(axis=(1, 2))
        mx.eval(scores, broken)
        tick()
        texts = ["".join(self._letters.get(token, "") for token in row) for row in self._model._ctc_decode(scores)]
        found = [plain(text.replace("|", " "), None, len(text)) for text in texts]
        return [Heard(problem=NOT_A_NUMBER) if bad else one for bad, one in zip(broken.tolist(), found, strict=True)]


def _normal(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Mean 0 and variance 1, as it was trained on."""
    return np.asarray((samples - samples.mean()) / (samples.std() + 1e-7), np.float32)
