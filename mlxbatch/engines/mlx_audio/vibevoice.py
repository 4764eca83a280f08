"""VibeVoice-ASR: text with times and speakers as JSON; pieces are encoded one by one and answered together."""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx

from mlxbatch.engines.mlx_audio import decoding
from mlxbatch.engines.mlx_audio.alone import Saying, StreamingAlone
from mlxbatch.engines.mlx_audio.cuts import Cut
from mlxbatch.engines.mlx_audio.heard import Heard, plain, spoken_segments
from mlxbatch.engines.mlx_audio.hearing import NOT_A_NUMBER, Part, Tick, context_of, samples_of
from mlxbatch.types import Segment

MOST_TOKENS = 32_768
SENTENCE_ENDS = (".", "!", "?", "。", "！", "？")
ENDS = ("<|im_end|>", "<|endoftext|>")
# How an answer in JSON begins, wherever it breaks off: a list of objects, or an object. "[Music]" is text.
_JSON = re.compile(r'\s*(?:assistant)?\s*(?:```(?:json)?)?\s*(?=\[\s*(?:[{\]]|$)|\{\s*(?:"|$))')
# Line ends inside a text are no reason to lose it.
_DECODER = json.JSONDecoder(strict=False)
_KEYS = {
    "Start time": "start",
    "Start": "start",
    "End time": "end",
    "End": "end",
    "Speaker ID": "speaker_id",
    "Speaker": "speaker_id",
    "Content": "text",
}


def vibevoice(model: Any) -> VibeVoice | Streamed:
    """A checkpoint for streams has its own protocol, and knows it by its own token."""
    return Streamed(model) if model.is_streaming_model else VibeVoice(model)


class VibeVoice:
    """Its answer is a list of objects, one for each segment: in a stream each is told when it is whole."""

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
        (rows,) = deque(self._answering(cuts, tick), maxlen=1)
        return [self._heard(cut, row) for cut, row in zip(cuts, rows, strict=True)]

    def stream(self, cuts: Sequence[Cut], tick: Tick) -> Iterator[Part]:
        told, saying = [0] * len(cuts), dict(enumerate(cuts))
        for rows in self._answering(cuts, tick):
            for number, cut in list(saying.items()):
                row = rows[number]
                if row.done:
                    heard = self._heard(cut, row)
                    yield Part(number, replace(heard, segments=heard.segments[told[number] :]), last=True)
                    del saying[number]
                elif "}" in self._model.tokenizer.decode(row.tokens[-1:]):
                    known = self._known(cut, row)
                    yield from (Part(number, Heard((one,)), last=False) for one in known[told[number] :])
                    told[number] = max(told[number], len(known))

    def _answering(self, cuts: Sequence[Cut], tick: Tick) -> Iterator[list[decoding.Row]]:
        prompts = []
        for cut in cuts:
            prompts.append(self._prompt(cut))
            mx.eval(prompts[-1])
            tick()
        limits = [decoding.token_limit(cut.seconds, cut.options.max_tokens, MOST_TOKENS) for cut in cuts]
        yield from self._language_model.answering(prompts, self._stop, limits, tick)

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
        if (begin := _JSON.match(text)) is None:
            return plain(text, None, len(row.tokens), row.avg_logprob, cut=row.cut)
        found, whole = objects(text[begin.end() :])
        return Heard(_segments(cut, row, found), None, len(row.tokens), row.cut or not whole)

    def _known(self, cut: Cut, row: decoding.Row) -> tuple[Segment, ...]:
        """The segments that are whole while the answer goes on; none of one that is no JSON."""
        text = self._model.tokenizer.decode(row.tokens, skip_special_tokens=True)
        begin = _JSON.match(text)
        return () if begin is None else _segments(cut, row, objects(text[begin.end() :], going_on=True)[0])


def _segments(cut: Cut, row: decoding.Row, found: Iterable[Mapping[str, Any]]) -> tuple[Segment, ...]:
    # Who is speaker 0 in one piece may be speaker 1 in the next.
    told = [one if cut.alone else replace(one, speaker=None) for one in spoken_segments(found)]
    return tuple(replace(one, avg_logprob=row.avg_logprob) for one in told)


class Streamed(StreamingAlone):
    """Checkpoints that hear chunks of some seconds, each after all before it; all times are those of chunks."""

    def __init__(self, model: Any) -> None:
        self._chunk = chunk = model.chunk_frames * model.speech_tok_compress_ratio / model.sample_rate

        def arguments(cut: Cut) -> Mapping[str, Any]:
            most = decoding.token_limit(chunk, cut.options.max_tokens, 256)
            return {"context": context_of(cut) or None, "max_tokens_per_chunk": most}

        super().__init__(model, "acoustic_connector", arguments, "language_model")

    def _told(self, found: Any) -> Heard:
        return Heard(tuple(joined(found.segments)), None, found.generation_tokens)

    def _saying(self, cut: Cut, asked: Mapping[str, Any]) -> Saying:
        """`generate`'s chunks one by one; a sentence is whole with the chunk that ends it."""
        state: dict[str, Any] = {}
        segments: list[Segment] = []
        for segment in joined(self._chunks(cut, asked, state)):
            segments.append(segment)
            yield segments
        return Heard(tuple(segments), None, state["generation_tokens"])

    def _chunks(self, cut: Cut, asked: Mapping[str, Any], state: dict[str, Any]) -> Iterator[Mapping[str, Any]]:
        model = self._model
        said = model.streaming_generate(
            mx.array(samples_of(cut)),
            context_info=asked["context"],
            max_new_tokens_per_chunk=asked["max_tokens_per_chunk"],
            _state_callback=state.update,
        )
        for number, _, text in said:
            ends = (number * self._chunk, min((number + 1) * self._chunk, state["audio_samples"] / model.sample_rate))
            yield {"text": text, "start": ends[0], "end": ends[1]}


def joined(chunks: Iterable[Mapping[str, Any]]) -> Iterator[Segment]:
    """Chunks of text with their times, cut anywhere, as sentences: each ends with the chunk that ends it."""
    text, start = "", 0.0
    for chunk in chunks:
        start = start if text else chunk["start"]
        text += chunk["text"]
        if text.rstrip().endswith(SENTENCE_ENDS):
            yield Segment(start, chunk["end"], text.strip())
            text = ""
    if text.strip():
        yield Segment(start, math.inf, text.strip())


def objects(text: str, *, going_on: bool = False) -> tuple[list[Mapping[str, Any]], bool]:
    """The whole JSON objects in a list that may break off, under our names; and whether nothing else is in it.

    Of a text that is `going_on`, what begins as an object may become one: only those before it are told.
    """
    found: list[Mapping[str, Any]] = []
    rest, place = "", 0
    while (start := text.find("{", place)) >= 0:
        rest += text[place:start]
        try:
            value, place = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            if going_on:
                return found, False
            rest, place = rest + "{", start + 1
            continue
        found.append({_KEYS.get(key, key): inner for key, inner in value.items() if not _is_nan(inner)})
    return found, not (rest + text[place:]).strip("[],` \t\r\n")


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
