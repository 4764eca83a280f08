"""Qwen3-ASR: each piece is encoded by itself, the language model answers all prompts of a batch together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from mlxbatch.engines.mlx_audio import decoding
from mlxbatch.engines.mlx_audio.cuts import Cut
from mlxbatch.engines.mlx_audio.heard import Heard, code_of, plain
from mlxbatch.engines.mlx_audio.hearing import NOT_A_NUMBER, Tick, context_of, samples_of
from mlxbatch.engines.mlx_audio.loading import network_of
from mlxbatch.languages import LANGUAGES

MOST_TOKENS = 8192
TEXT_BEGINS = "<asr_text>"


class Qwen3:
    """mlx-audio batches only the chunks of one file, padded with silence that it does not mask; this pads prompts."""

    def __init__(self, model: Any) -> None:
        self._model = network = network_of(model)
        text = network.model
        head = network.lm_head or text.embed_tokens.as_linear
        body = lambda embeddings, caches: text(inputs_embeds=embeddings, cache=caches)  # noqa: E731
        self._language_model = decoding.LanguageModel(body, head, text.embed_tokens, len(text.layers))
        self._languages = {name.lower(): name for name in network.config.support_languages or ()}

    def hear(self, cuts: Sequence[Cut], tick: Tick) -> list[Heard]:
        named = [self._named(cut.options.language) for cut in cuts]
        prompts = []
        for cut, language in zip(cuts, named, strict=True):
            prompts.append(self._prompt(cut, language))
            mx.eval(prompts[-1])
            tick()
        limits = [decoding.token_limit(cut.seconds, cut.options.max_tokens, MOST_TOKENS) for cut in cuts]
        rows = self._language_model.answer(prompts, self._model._eos_token_ids(), limits, tick)
        return [self._heard(cut, row) for cut, row in zip(cuts, rows, strict=True)]

    def problem(self, language: str | None) -> str | None:
        """Why it cannot transcribe in that language, by what its config.json lists."""
        if language is None or not self._languages or self._named(language) is not None:
            return None
        return f"Qwen3-ASR does not know the language {language!r} (it knows {', '.join(self._languages.values())})"

    def _named(self, language: str | None) -> str | None:
        """The language by the name that the model has for it."""
        if language is None:
            return None
        name = LANGUAGES[language]
        return self._languages.get(name, None if self._languages else name.title())

    def _prompt(self, cut: Cut, language: str | None) -> mx.array:
        """The chat with the sound in its place, as embeddings [length, width]."""
        features, mask, count = self._model._preprocess_audio(samples_of(cut))
        sound = self._model.get_audio_features(features, mask)
        tokens = self._model._build_prompt(count, language, context_of(cut) or None)
        embeddings = self._model.model.embed_tokens(tokens)[0]
        first = int(np.argmax(np.array(tokens[0]) == self._model.config.audio_token_id))
        embeddings[first : first + count] = sound.astype(embeddings.dtype)
        return embeddings

    def _heard(self, cut: Cut, row: decoding.Row) -> Heard:
        if row.broken:
            return Heard(problem=NOT_A_NUMBER)
        text = self._model._tokenizer.decode(row.tokens, skip_special_tokens=True)
        language = cut.options.language
        if language is None and TEXT_BEGINS in text:
            said, _, text = text.partition(TEXT_BEGINS)
            language = code_of(said.removeprefix("language "))
        return plain(text, language, len(row.tokens), row.avg_logprob, cut=row.cut)
