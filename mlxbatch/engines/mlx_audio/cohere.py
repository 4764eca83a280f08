"""Cohere ASR: encoder and decoder with masks, rows of any length and language in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from mlxbatch.engines.mlx_audio import decoding
from mlxbatch.engines.mlx_audio.cuts import Cut
from mlxbatch.engines.mlx_audio.heard import Heard, plain
from mlxbatch.engines.mlx_audio.hearing import NOT_A_NUMBER, Tick, samples_of


class Cohere:
    """mlx-audio's `transcribe` takes one language for all and cuts by itself; this calls the parts."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._vocabulary = model._tokenizer
        self._positions = model.config.transf_decoder.config_dict.max_sequence_length

    def hear(self, cuts: Sequence[Cut], tick: Tick) -> list[Heard]:
        prompts = [self._vocabulary.build_prompt_tokens(cut.options.language) for cut in cuts]
        room = self._positions - len(prompts[0])
        limits = [decoding.token_limit(cut.seconds, cut.options.max_tokens, room) for cut in cuts]
        encoded, _, mask = self._model._encode_waveforms([mx.array(samples_of(cut)) for cut in cuts])
        tick()
        rows = self._decode(prompts, encoded, mask, limits, tick)
        return [self._heard(cut, row) for cut, row in zip(cuts, rows, strict=True)]

    def problem(self, language: str | None) -> str | None:
        known = self._model.config.supported_languages
        return None if language in known else f"this model does not know the language {language!r} ({', '.join(known)})"

    def _decode(
        self, prompts: list[list[int]], encoded: mx.array, mask: mx.array, limits: list[int], tick: Tick
    ) -> list[decoding.Row]:
        decoder, head = self._model.transf_decoder, self._model.log_softmax.mlp.layer0
        cache, position = self._model.make_cache(), 0

        def step(tokens: mx.array) -> mx.array:
            nonlocal cache, position
            hidden, cache = decoder(tokens, encoded, encoder_mask=mask, cache=cache, start_pos=position)
            position += tokens.shape[1]
            return head(hidden[:, -1])

        first = step(mx.array(prompts, mx.int32))
        stop = {self._vocabulary.eos_token_id}
        return decoding.follow(first, lambda tokens: step(tokens[:, None]), stop, limits, tick)

    def _heard(self, cut: Cut, row: decoding.Row) -> Heard:
        if row.broken:
            return Heard(problem=NOT_A_NUMBER)
        text = self._vocabulary.decode(row.tokens)
        return plain(text, cut.options.language, len(row.tokens), row.avg_logprob, cut=row.cut)
