"""VibeVoice-ASR: text with times and speakers as JSON; pieces are encoded one by one and answered together."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx

from mlxbatch.engines.mlx_audio import decoding
from mlxbatch.engines.mlx_audio.cuts import Cut
from mlxbatch.engines.mlx_audio.heard import Heard, plain, spoken_segments
from mlxbatch.engines.mlx_audio.hearing import NOT_A_NUMBER, Tick, context_of, samples_of

MOST_TOKENS = 32_768
ENDS = ("<|im_end|>", "<|endoftext|>")
_KEYS = {
    "Start time": "start",
    "Start": "start",
    "End time": "end",
    "End": "end",
    "Speaker ID": "speaker_id",
    "Speaker": "speaker_id",
    "Content": "text",
}


class VibeVoice:
    def __init__(self, model: Any) -> None:
        self._model = model
        language = model.language_model
        head = language.model.embed_tokens.as_linear if language.config.tie_word_embeddings else language.lm_head
        body = lambda embeddings, caches: language.model(None, caches, embeddings)  # noqa: E731
        embed = language.model.embed_tokens
        self._language_model = decoding.LanguageModel(body, head, embed, len(language.model.layers))
        known = (model.tokenizer.convert_tokens_to_ids(token) for token in ENDS)
        self._stop = {token for token in (*known, model.tokenizer.eos_token_id) if token is not None}

    def problem(self, language: str | None) -> str | None:
        return None

    def hear(self, cuts: Sequence[Cut], tick: Tick) -> list[Heard]:
        prompts = []
        for cut in cuts:
            prompts.append(self._prompt(cut))
            mx.eval(prompts[-1])
            tick()
        limits = [decoding.token_limit(cut.seconds, cut.options.max_tokens, MOST_TOKENS) for cut in cuts]
        rows = self._language_model.answer(prompts, self._stop, limits, tick)
        return [self._heard(cut, row) for cut, row in zip(cuts, rows, strict=True)]

    def _prompt(self, cut: Cut) -> mx.array:
        """The request with the sound in its place, as embeddings [length, width]."""
        waveform = self._model._preprocess_audio(samples_of(cut))
        sound = self._model.encode_speech(waveform)
        seconds = waveform.shape[1] / self._model.sample_rate
        tokens, places = self._model._build_prompt_tokens(sound, seconds, context_of(cut) or None)
        return self._model._merge_speech_text_embeddings(tokens, sound, places)[0]

    def _heard(self, cut: Cut, row: decoding.Row) -> Heard:
        if row.broken:
            return Heard(problem=NOT_A_NUMBER)
        text = self._model.tokenizer.decode(row.tokens, skip_special_tokens=True)
        segments = spoken_segments(objects(text))
        if not segments:
            return plain(text, None, len(row.tokens), row.avg_logprob)
        # Who is speaker 0 in one piece may be speaker 1 in the next.
        told = [replace(one, avg_logprob=row.avg_logprob) for one in segments]
        return Heard(tuple(one if cut.alone else replace(one, speaker=None) for one in told), None, len(row.tokens))


def objects(text: str) -> Iterator[Mapping[str, Any]]:
    """The whole JSON objects in a text, under our names: a list that breaks off at the limit keeps its beginning."""
    for match in re.finditer(r"\{[^{}]*\}", text):
        try:
            found = json.loads(match[0])
        except ValueError:
            continue
        yield {_KEYS.get(key, key): value for key, value in found.items() if not _is_nan(value)}


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
